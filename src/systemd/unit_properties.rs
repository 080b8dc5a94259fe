//! The properties of a unit, as systemd has loaded it with its drop-ins.

use std::collections::BTreeMap;

use super::systemctl::{SYSTEMCTL, Systemctl, SystemctlError, in_time};

/// The unit that the packages install.
pub(super) const UNIT: &str = "node-storage-driver-registrar.service";

/// The values, by the names of the properties.
pub(super) struct UnitProperties(BTreeMap<String, String>);

impl UnitProperties {
    /// The properties of a unit with these names, separated by commas; none if systemd does not run or has
    /// not loaded the unit.
    pub(super) async fn of(unit: &str, names: &str) -> Option<UnitProperties> {
        let asked = in_time(UnitProperties::ask(SYSTEMCTL, unit, names)).await;
        asked.unwrap_or_else(|error| {
            tracing::debug!(%error, unit, "cannot ask systemd for the properties of a unit");
            None
        })
    }

    /// An older systemd leaves out the properties that it does not know.
    pub(super) async fn ask(
        systemctl: Systemctl<'_>,
        unit: &str,
        names: &str,
    ) -> Result<Option<UnitProperties>, SystemctlError> {
        let wanted = format!("--property=LoadState,{names}");
        let answer = systemctl.ask(&["show", &wanted, "--", unit]).await?;
        let pairs = answer.lines().filter_map(|line| line.split_once('='));
        let values = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let properties = UnitProperties(values.collect());
        Ok((properties.value("LoadState") == "loaded").then_some(properties))
    }

    /// Empty if systemd has not named the property.
    pub(super) fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}
