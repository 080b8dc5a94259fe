//! The shape of a configuration file, as serde reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::driver::{DriverDefaults, DriverKey, DriverTable};
use super::settings::{DiscoverySettings, HttpSettings, LogSettings, ServiceSettings};
use super::value::{self, RootDir};

/// A whole file. What it leaves out has the built-in default, so one shape serves both to
/// check a single layer and to read the sum of all.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Tree {
    #[serde(deserialize_with = "value::path")]
    pub(super) plugins_dir: PathBuf,
    #[serde(deserialize_with = "value::path")]
    pub(super) registry_dir: PathBuf,
    #[serde(deserialize_with = "table")]
    pub(super) kubelet: KubeletTable,
    #[serde(deserialize_with = "table")]
    pub(super) defaults: DriverDefaults,
    #[serde(deserialize_with = "tables")]
    pub(super) drivers: BTreeMap<DriverKey, DriverTable>,
    #[serde(deserialize_with = "table")]
    pub(super) discovery: DiscoverySettings,
    #[serde(deserialize_with = "table")]
    pub(super) service: ServiceSettings,
    #[serde(deserialize_with = "table")]
    pub(super) http: HttpSettings,
    #[serde(deserialize_with = "table")]
    pub(super) log: LogSettings,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            plugins_dir: PathBuf::from("/vdata/storage/plugins"),
            registry_dir: PathBuf::from("/vdata/storage/plugins_registry"),
            kubelet: KubeletTable::default(),
            defaults: DriverDefaults::default(),
            drivers: BTreeMap::new(),
            discovery: DiscoverySettings::default(),
            service: ServiceSettings::default(),
            http: HttpSettings::default(),
            log: LogSettings::default(),
        }
    }
}

/// `[kubelet]` as it is written: two of its keys follow from others.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct KubeletTable {
    #[serde(deserialize_with = "value::root_dir")]
    pub(super) root_dir: RootDir,
    #[serde(deserialize_with = "value::some_path")]
    pub(super) registry_dir: Option<PathBuf>,
    #[serde(deserialize_with = "value::some_path")]
    pub(super) sees_registry_as: Option<PathBuf>,
}

impl Default for KubeletTable {
    fn default() -> Self {
        Self {
            root_dir: RootDir::Path(PathBuf::from(super::settings::KUBELET_ROOT)),
            registry_dir: None,
            sees_registry_as: None,
        }
    }
}

/// A struct that is written as a table and as nothing else: serde's derive also takes a list,
/// with the values in the order of the fields.
struct Table<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TableVisitor(PhantomData))
    }
}

struct TableVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
    type Value = Table<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Table)
    }
}

fn table<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<T, D::Error> {
    Table::deserialize(d).map(|Table(inner)| inner)
}

fn tables<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<DriverKey, DriverTable>, D::Error> {
    let tables: BTreeMap<DriverKey, Table<DriverTable>> = table(d)?;
    Ok(tables
        .into_iter()
        .map(|(id, Table(driver))| (id, driver))
        .collect())
}
