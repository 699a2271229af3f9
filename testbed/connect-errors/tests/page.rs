//! docs/connection-errors.md as a whole; the clients' own tests check its rows.

#[test]
fn the_page_has_every_cell() {
    netfold_connect_errors::check_completeness();
}

/// The library has each message once, and its bindings pass it on.
#[test]
fn every_binding_gives_the_library_s_message() {
    netfold_connect_errors::check_bindings();
}
