//! The attribute `instrument`: a whole function as a span.
//!
//! Written on tokens alone, without a parser of Rust: all that has to be found is the name,
//! the return type and the body, and those stand where the language wants them.

#![warn(missing_docs)]

use proc_macro::{Delimiter, Group, Ident, Literal, Spacing, Span, TokenStream, TokenTree};

/// Records each call of a function as a span, with the name of the function, or as given in
/// `#[instrument("name")]`. Of an `async fn`, each poll is a span.
///
/// ```ignore
/// #[spanwise_probe::instrument]
/// fn load(path: &str) -> String { … }
/// ```
#[proc_macro_attribute]
pub fn instrument(options: TokenStream, item: TokenStream) -> TokenStream {
    let instrumented = name_option(options).and_then(|name| instrumented(name, item));
    instrumented.unwrap_or_else(|(place, message)| error_at(place, message))
}

/// What is wrong, and where.
type Problem = (Span, &'static str);

/// The text between the parentheses.
fn name_option(options: TokenStream) -> Result<Option<Literal>, Problem> {
    let options: Vec<TokenTree> = options.into_iter().collect();
    match &*options {
        [] => Ok(None),
        [TokenTree::Literal(name)] if name.to_string().starts_with('"') => Ok(Some(name.clone())),
        [first, ..] => Err((first.span(), "expected a name in quotes, or nothing")),
    }
}

fn instrumented(name: Option<Literal>, item: TokenStream) -> Result<TokenStream, Problem> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let of_functions = "only functions with a body can be instrumented";
    let is_word = |token: &TokenTree, word: &str| match token {
        TokenTree::Ident(ident) => ident.to_string() == word,
        _ => false,
    };
    let place = tokens.first().map_or_else(Span::call_site, TokenTree::span);
    let at = tokens.iter().position(|token| is_word(token, "fn")).ok_or((place, of_functions))?;
    if let Some(word) = tokens[..at].iter().find(|token| is_word(token, "const")) {
        return Err((word.span(), "a `const fn` cannot be instrumented"));
    }
    let own_name = match tokens.get(at + 1) {
        Some(TokenTree::Ident(ident)) => text(ident),
        _ => return Err((place, of_functions)),
    };
    let body = match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => return Err((place, of_functions)),
    };
    let name = TokenTree::from(name.unwrap_or(own_name));
    let is_async = tokens[..at].iter().any(|token| is_word(token, "async"));
    let new_body = match is_async {
        true => async_body(&name, &tokens[at..], body),
        false => body_with_span(&name, body),
    };
    tokens.push(Group::new(Delimiter::Brace, new_body).into());
    Ok(tokens.into_iter().collect())
}

/// The name of a function as a literal, without the `r#` of words that Rust keeps.
fn text(ident: &Ident) -> Literal {
    let name = ident.to_string();
    Literal::string(name.strip_prefix("r#").unwrap_or(&name))
}

fn body_with_span(name: &TokenTree, body: Group) -> TokenStream {
    let mut tokens = parsed("let __spanwise_span = ::spanwise_probe::span! ");
    tokens.extend([TokenTree::from(Group::new(Delimiter::Parenthesis, name.clone().into()))]);
    tokens.extend(parsed(";"));
    tokens.extend([TokenTree::from(body)]);
    tokens
}

/// The body as a future of its own, polled inside spans.
fn async_body(name: &TokenTree, signature: &[TokenTree], body: Group) -> TokenStream {
    let mut inside = TokenStream::new();
    // Without this, what `?` converts errors to would not be known inside.
    if let Some(type_) = return_type(signature) {
        inside.extend(parsed(
            "#[allow(unreachable_code, clippy::all, clippy::pedantic, clippy::nursery)] if false",
        ));
        let mut fake = parsed("let __spanwise_return : ");
        fake.extend(type_);
        fake.extend(parsed("= loop {}; return __spanwise_return;"));
        inside.extend([TokenTree::from(Group::new(Delimiter::Brace, fake))]);
    }
    inside.extend([TokenTree::from(body)]);
    let mut arguments = parsed("::spanwise_probe::__site! ");
    let mut site = parsed("Span ,");
    site.extend([name.clone()]);
    arguments.extend([TokenTree::from(Group::new(Delimiter::Parenthesis, site))]);
    arguments.extend(parsed(", async move"));
    arguments.extend([TokenTree::from(Group::new(Delimiter::Brace, inside))]);
    let mut tokens = parsed("::spanwise_probe::in_span");
    tokens.extend([TokenTree::from(Group::new(Delimiter::Parenthesis, arguments))]);
    tokens.extend(parsed(".await"));
    tokens
}

/// The type after `->`, where it has a name.
fn return_type(signature: &[TokenTree]) -> Option<TokenStream> {
    let is_arrow = |pair: &[TokenTree]| match pair {
        [TokenTree::Punct(dash), TokenTree::Punct(tip)] => {
            dash.as_char() == '-' && dash.spacing() == Spacing::Joint && tip.as_char() == '>'
        }
        _ => false,
    };
    // The last arrow outside of parentheses: earlier ones belong to bounds of generics.
    let arrow = signature.windows(2).rposition(is_arrow)?;
    let is_where =
        |token: &&TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "where");
    let type_: Vec<TokenTree> =
        signature[arrow + 2..].iter().take_while(|token| !is_where(token)).cloned().collect();
    let has_impl = type_
        .iter()
        .any(|token| matches!(token, TokenTree::Ident(word) if word.to_string() == "impl"));
    (!has_impl).then(|| type_.into_iter().collect())
}

fn parsed(text: &str) -> TokenStream {
    text.parse().expect("this text is Rust")
}

/// A compiler's error at a place.
fn error_at(place: Span, message: &str) -> TokenStream {
    let mut tokens = parsed("::core::compile_error! ");
    let message = TokenTree::from(Literal::string(message));
    tokens.extend([TokenTree::from(Group::new(Delimiter::Brace, message.into()))]);
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(place);
            token
        })
        .collect()
}
