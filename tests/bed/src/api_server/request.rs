//! A request, as a test counts it.

use serde::Serialize;

/// A request that has arrived, with or without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// With the query.
    pub path: String,
    /// The user that its credentials belong to; none if they are missing or not valid.
    pub user: Option<String>,
}

impl Request {
    /// The path without the query.
    pub fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// The query has this parameter with this value.
    pub fn asks(&self, parameter: &str) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|part| part == parameter)
    }
}
