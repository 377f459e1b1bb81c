package config_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/config"
)

// TestIsolated_eachKeyIsDecided requires a decision about each key of the configuration: a
// rehearsal takes the site's value, or switches off what would reach other machines or files.
func TestIsolated_eachKeyIsDecided(t *testing.T) {
	taken := []string{"AllowedHosts", "Sessions", "OSImages", "OSImageProxy", "ReleaseImages", "Releases", "Installer",
		"Mirror", "Images", "Egress", "NTPSources", "Validations", "Limits", "Timeouts", "Capabilities", "Joining",
		"OIDC", "LDAP", "Seal", "Log", "Scrub"}
	off := []string{"URL", "TLS", "AMS", "Kubernetes", "Registry", "Hosted", "Site", "Backup", "Replica", "Fleet",
		"Profiling", "Tracing"}
	changed := []string{"Listen", "BootListen", "DataDir", "Auth", "Audit"}

	site := config.Config{Listen: "192.0.2.1:8090", BootListen: "192.0.2.1:8091", URL: []string{"https://192.0.2.1"}}
	site.TLS.Enabled, site.Hosted.Enabled, site.Kubernetes.Enabled, site.AMS.Enabled = true, true, true, true
	site.Registry.Listen, site.Profiling.Socket, site.Backup.Directory = "192.0.2.1:5000", "/run/socket", "/backups"
	site.Site.DNS.Interfaces, site.Replica.To = []string{"eth1"}, "/replica"
	site.Tracing.Endpoint = "https://192.0.2.3:4318"
	site.Audit = config.Audit{Bytes: 1, Syslog: "udp://192.0.2.2:514", SyslogCAFile: "/ca.crt"}
	site.Fleet.Name = "one"
	isolated := site.Isolated("/data")
	require.Equal(t, []string{"127.0.0.1:0", "", "/data", config.AuthNone},
		[]string{isolated.Listen, isolated.BootListen, isolated.DataDir, isolated.Auth})
	require.Equal(t, config.Audit{Bytes: 1}, isolated.Audit)

	before, after := reflect.ValueOf(site), reflect.ValueOf(isolated)
	for field, value := range after.Fields() {
		switch {
		case slices.Contains(off, field.Name):
			require.False(t, before.FieldByIndex(field.Index).IsZero(), "%s is set at the site", field.Name)
			require.True(t, value.IsZero(), "%s is off in a rehearsal", field.Name)
		case slices.Contains(taken, field.Name), slices.Contains(changed, field.Name):
		default:
			t.Errorf("decide in Isolated and in this test about the key %s in a rehearsal", field.Name)
		}
	}
}
