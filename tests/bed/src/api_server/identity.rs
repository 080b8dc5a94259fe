//! Who the clients are: certificates and tokens that the server has given out.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;

/// A client certificate with its key, both as PEM.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl ClientCertificate {
    /// Both in one text, in the order of the kubelet's own file.
    pub fn both(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }
}

/// The credentials that count, with their users.
#[derive(Default)]
pub(super) struct Identities {
    /// Known by all their bytes: a certificate that the server has not issued is nobody's, and its subject is
    /// never read.
    certificates: HashMap<Vec<u8>, String>,
    tokens: HashMap<String, String>,
}

impl Identities {
    pub(super) fn add_certificate(&mut self, der: Vec<u8>, user: &str) {
        self.certificates.insert(der, user.to_owned());
    }

    pub(super) fn add_token(&mut self, user: &str) -> String {
        let random = KeyPair::generate().unwrap();
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let header = part(br#"{"alg":"ES256"}"#);
        let token = format!(
            "{header}.{}.{}",
            part(user.as_bytes()),
            part(random.public_key_raw())
        );
        self.tokens.insert(token.clone(), user.to_owned());
        token
    }

    /// The user of a connection's certificate, or else of the header `Authorization`.
    pub(super) fn user(&self, certificate: Option<&[u8]>, header: Option<&str>) -> Option<String> {
        let by_certificate = certificate.and_then(|der| self.certificates.get(der));
        let token = header.and_then(|header| header.strip_prefix("Bearer "));
        let by_token = token.and_then(|token| self.tokens.get(token));
        by_certificate.or(by_token).cloned()
    }
}
