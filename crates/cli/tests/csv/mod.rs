//! Tables of other tools.

/// A header and rows of text.
pub(crate) type Texts = Vec<Vec<String>>;

pub(crate) fn rows(text: &str) -> Texts {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            // A doubled quote closes and opens again; the quote itself is not compared.
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut field)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            '\r' if !is_quoted => {}
            c => field.push(c),
        }
    }
    rows
}
