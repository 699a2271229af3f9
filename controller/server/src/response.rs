//! Responses of the HTTP server.

use std::convert::Infallible;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};

use crate::access::Access;

/// The page may load its own files only; no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// Whether the client may see everything.
pub(crate) fn is_authorized(access: &Access, request: &Request<Incoming>) -> bool {
    let header = request.headers().get(header::AUTHORIZATION);
    access.sees_everything(header.and_then(|value| value.to_str().ok()))
}

pub(crate) fn unauthorized() -> Response<Body> {
    let mut response =
        text(StatusCode::UNAUTHORIZED, "a token is required: an administrator's or a reader's\n");
    let challenge = HeaderValue::from_static("Basic realm=\"netfold: the token is the password\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

pub(crate) fn read_only() -> Response<Body> {
    text(StatusCode::METHOD_NOT_ALLOWED, "this server is read-only: use GET\n")
}

pub(crate) fn gone() -> Response<Body> {
    text(StatusCode::SERVICE_UNAVAILABLE, "the controller is shutting down\n")
}

pub(crate) fn text(status: StatusCode, message: impl Into<Bytes>) -> Response<Body> {
    with_status(status, content("text/plain; charset=utf-8", message))
}

pub(crate) fn with_status(status: StatusCode, mut response: Response<Body>) -> Response<Body> {
    *response.status_mut() = status;
    response
}

pub(crate) fn content(media_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes.into()).boxed());
    decorate(&mut response, media_type);
    response
}

pub(crate) fn decorate(response: &mut Response<Body>, media_type: &'static str) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
}
