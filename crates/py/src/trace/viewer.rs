//! The viewer's server inside of the Python program: it shows the very traces that are open, and
//! ends with the program, or before.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pyo3::prelude::*;
use spanwise_serve::{RedirectFile, Server, Session, Stop, TraceView};

use super::opened::Trace;
use super::worker::work;

/// A server that runs on threads of its own.
#[pyclass(frozen, module = "spanwise._native")]
pub(crate) struct Viewer {
    /// Where the page is, with the secret that it needs.
    #[pyo3(get)]
    url: String,
    stop: Stop,
    /// What a browser was opened by.
    file: Mutex<Option<Arc<RedirectFile>>>,
}

#[pymethods]
impl Viewer {
    /// Ends it: from here on nobody is answered.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.stop.stop());
        self.remove_redirect_file();
    }

    /// The path of a private file that leads a browser to the page: everybody can read the
    /// arguments of a process, so the address must not be one. It goes with the first request.
    fn redirect_file(&self) -> PyResult<OsString> {
        let file = self.stop.redirect_file()?;
        let path = file.path().as_os_str().to_owned();
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(path)
    }

    /// Deletes that file, where it is still there.
    fn remove_redirect_file(&self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Shows traces on the loopback address; port 0 is any that is free.
#[pyfunction]
pub(crate) fn view_traces(
    py: Python<'_>,
    traces: Vec<PyRef<'_, Trace>>,
    port: u16,
) -> PyResult<Viewer> {
    let server = Server::bind(port)?.for_notebooks();
    let (url, stop) = (server.url(), server.stop_from_elsewhere()?);
    let held: Vec<_> = traces.iter().map(|trace| Arc::clone(&trace.held)).collect();
    let session = work(py, None, move |_| {
        let viewed = held.iter().map(|held| TraceView::of_facts(held.file.clone(), held.shared()));
        Session::new(viewed.collect())
    })?;
    // Not waited for: it ends when it is stopped, or with the program.
    thread::Builder::new()
        .name("spanwise viewer".to_owned())
        .spawn(move || server.run(&session))?;
    Ok(Viewer { url, stop, file: Mutex::default() })
}
