//! What an API server does wrong.

use serde::Deserialize;
use serde_json::Value;

/// How a request is answered instead.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A `Status` object with this code, such as 401, 403, 409, 500 or 503.
    Status(u16),
    /// 429 with `Retry-After`, in seconds.
    TooManyRequests(u64),
    /// 307 to the same path of another server.
    Redirect(String),
    /// The 404 page of a proxy, which is no `Status` object.
    NoPage,
    /// No answer, ever.
    Hang,
    /// An answer whose body arrives a byte at a time, and never ends.
    Drip,
    /// 200 with a body that is not JSON.
    NotJson,
    /// 200 with this object, whatever was asked for.
    Object(Value),
    /// 200 with a body of 20 MB, which is valid JSON.
    Huge,
    /// 200 with half of the body; then the connection is closed.
    Cut,
}

/// What happens to a new connection, before any request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// TLS and HTTP.
    #[default]
    Open,
    /// The connection is accepted, and not a byte follows.
    HangsBeforeTls,
    /// The connection is closed at once.
    Closes,
    /// TLS with a certificate of another CA.
    OtherAuthority,
    /// TLS, and then bytes that are not HTTP.
    NotHttp,
}
