package appliance_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

// host registers a host without an inventory.
func (d *testAppliance) host(env strfmt.UUID) strfmt.UUID {
	d.Helper()
	id := strfmt.UUID(uuid.NewString())
	_, err := d.Installer.V2RegisterHost(d.Context(), &installer.V2RegisterHostParams{InfraEnvID: env,
		NewHostParams: &models.HostCreateParams{HostID: &id}})
	require.NoError(d, err)
	return id
}

func (d *testAppliance) override(cluster strfmt.UUID, text string) error {
	_, err := d.Installer.V2UpdateClusterInstallConfig(d.Context(),
		&installer.V2UpdateClusterInstallConfigParams{ClusterID: cluster, InstallConfigParams: text})
	return err
}

// installConfig returns a cluster's install-config from the API.
func (d *testAppliance) installConfig(cluster strfmt.UUID) map[string]any {
	d.Helper()
	got, err := d.Installer.V2GetClusterInstallConfig(d.Context(),
		&installer.V2GetClusterInstallConfigParams{ClusterID: cluster})
	require.NoError(d, err)
	var config map[string]any
	require.NoError(d, json.Unmarshal([]byte(got.Payload), &config))
	return config
}

func TestInstallConfigOverrides_fieldByField(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	before := d.installConfig(cluster)
	require.Equal(t, false, before["fips"])

	require.NoError(t, d.override(cluster, `{"fips": true, "networking": {"networkType": "Calico"}, "compute": [{"replicas": 2}],
		"capabilities": {"baselineCapabilitySet": "None"}, "cpuPartitioningMode": "AllNodes", "sshKey": null}`))
	after := d.installConfig(cluster)
	require.Equal(t, true, after["fips"])
	networking, _ := after["networking"].(map[string]any)
	require.Equal(t, "Calico", networking["networkType"])
	require.NotEmpty(t, networking["clusterNetwork"], "what is not named stays")
	require.Equal(t, []any{map[string]any{"name": "worker", "hyperthreading": "Enabled", "replicas": float64(2)}},
		after["compute"])
	require.Equal(t, map[string]any{"baselineCapabilitySet": "None"}, after["capabilities"])
	require.Contains(t, d.get(cluster).InstallConfigOverrides, `"fips": true`)
	require.Contains(t, d.get(cluster).FeatureUsage, "Install Config Overrides")
	require.Contains(t, d.events(cluster), "install_config_applied")

	require.NoError(t, d.override(cluster, ""))
	require.Equal(t, before, d.installConfig(cluster))
	require.NotContains(t, d.get(cluster).FeatureUsage, "Install Config Overrides")
}

func TestInstallConfigOverrides_invalidIsRejected(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	refused(t, d.override(missingID(), "{}"), 404)
	_, err := d.Installer.V2GetClusterInstallConfig(t.Context(),
		&installer.V2GetClusterInstallConfigParams{ClusterID: missingID()})
	refused(t, err, 404)
	for text, contains := range map[string]string{
		"fips: true":                       "no JSON object",
		"[]":                               "no JSON object",
		"null":                             "takes a JSON object",
		"{} {}":                            "one object only",
		`{"fips": "yes"}`:                  "fips takes true or false",
		`{"fpis": true}`:                   `the field "fpis"`,
		`{"networking": []}`:               "networking takes an object",
		`{"networking": {"mtu": 9000}}`:    `"networking.mtu"`,
		`{"compute": {}}`:                  "compute takes a list",
		`{"compute": [{"replicas": -1}]}`:  "compute[0].replicas takes a whole number",
		`{"compute": [{"replicas": 1.5}]}`: "compute[0].replicas takes a whole number",
		`{"additionalTrustBundle": "x"}`:   "no list of certificates in PEM form",
		`{"platform": {"none": {"a": 1}}}`: `"platform.none.a"`,
		`{"networking": {"serviceNetwork": ["ten"]}}`: "networking.serviceNetwork[0] takes a network in CIDR " +
			"notation",
		`{"platform": {"baremetal": {"apiVIPs": ["api.x"]}}}`: "platform.baremetal.apiVIPs[0] takes an IP address",
	} {
		t.Run(text, func(t *testing.T) {
			refused(t, d.override(cluster, text), 400)
			requireRefusal(t, call(t, http.MethodPatch, d.url+"/clusters/"+cluster.String()+"/install-config",
				text2json(t, text)), 400, contains)
		})
	}
	requireRefusal(t, call(t, http.MethodPatch, d.url+"/clusters/"+cluster.String()+"/install-config",
		object{"fips": true}), 400, "expected a string")
	require.Empty(t, d.get(cluster).InstallConfigOverrides)
}

func text2json(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	require.NoError(t, err)
	return string(quoted)
}

func (d *testAppliance) overrideIgnition(env, host strfmt.UUID, config string) error {
	_, err := d.Installer.V2UpdateHostIgnition(d.Context(), &installer.V2UpdateHostIgnitionParams{
		InfraEnvID: env, HostID: host, HostIgnitionParams: &models.HostIgnitionParams{Config: config},
	})
	return err
}

func TestHostIgnition_isOverridden(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	host := d.host(env)
	refused(t, d.overrideIgnition(env, missingID(), "{}"), 400)
	refused(t, d.overrideIgnition(env, missingID(), `{"ignition": {"version": "3.2.0"}}`), 404)
	for config, contains := range map[string]string{
		"no": "JSON", `{"ignition": {"version": "9.0.0"}}`: "9.0.0",
		`{"ignition": {"version": "3.1.0"}, "storage": {"files": [{"path": "etc"}]}}`: "path",
	} {
		refused(t, d.overrideIgnition(env, host, config), 400)
		requireRefusal(t, call(t, http.MethodPatch, d.url+"/infra-envs/"+env.String()+"/hosts/"+host.String()+
			"/ignition", object{"config": config}), 400, contains)
	}
	const config = `{"ignition": {"version": "3.1.0"}, "storage": {"files": [{"path": "/etc/ours", "contents": {"source": "data:,ours"}}]}}`
	require.NoError(t, d.overrideIgnition(env, host, config))
	got, err := d.Installer.V2GetHost(t.Context(), &installer.V2GetHostParams{InfraEnvID: env, HostID: host})
	require.NoError(t, err)
	require.Equal(t, config, got.Payload.IgnitionConfigOverrides)
	require.Contains(t, d.get(cluster).FeatureUsage, "Ignition Config Override")
	require.Contains(t, d.events(cluster), "host_discovery_ignition_config_applied")
	require.NoError(t, d.overrideIgnition(env, host, ""))
	require.NotContains(t, d.get(cluster).FeatureUsage, "Ignition Config Override")

	_, err = d.Installer.V2GetHostIgnition(t.Context(), &installer.V2GetHostIgnitionParams{InfraEnvID: env,
		HostID: missingID()})
	refused(t, err, 404)
	requireRefusal(t, call(t, http.MethodGet, d.url+"/infra-envs/"+env.String()+"/hosts/"+host.String()+"/ignition",
		nil), 409, "not generated yet")
}

func TestHostInstallerArgs_onlyAllowed(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env := d.infraEnv(&cluster)
	host := d.host(env)
	set := func(host strfmt.UUID, args ...string) (*models.Host, error) {
		got, err := d.Installer.V2UpdateHostInstallerArgs(t.Context(), &installer.V2UpdateHostInstallerArgsParams{
			InfraEnvID: env, HostID: host, InstallerArgsParams: &models.InstallerArgsParams{Args: args},
		})
		if err != nil {
			return nil, err
		}
		return got.Payload, nil
	}
	_, err := set(missingID(), "-n")
	refused(t, err, 404)
	for _, args := range [][]string{
		{"--append-karg", "ip=192.0.2.2::192.0.2.254:255.255.255.0:core0.example.com:enp1s0:none", "--save-partindex",
			"5"},
		{"--delete-karg", "console=ttyS0,115200n8"}, {"-n"}, {"--copy-network", "--network-dir", "/etc/net"},
		{"--save-partlabel", "data*"},
		{"--image-url", "http://mirror/rhcos.raw.gz", "--image-file", "/tmp/rhcos"},
		{"--append-karg", `rd.znet=qeth,0.0.bdf0,layer2=1;"a":{'b'}[#$%!@]`},
	} {
		got, err := set(host, args...)
		require.NoError(t, err, args)
		text, err := json.Marshal(args)
		require.NoError(t, err)
		require.JSONEq(t, string(text), got.InstallerArgs)
	}
	got, err := set(host)
	require.NoError(t, err)
	require.Equal(t, "[]", got.InstallerArgs)
	require.Contains(t, d.events(cluster), "host_installer_args_applied")

	for name, wrong := range map[string]struct{ arg, contains string }{
		"not on the list":     {"--insecure", "unexpected flag --insecure for installer; allowed are --append-karg"},
		"joined to its value": {"--append-karg=quiet", "each value an argument of its own"},
		"a shell's pipe":      {"a|b", "'|'"},
		"an ampersand":        {"a&b", "'&'"},
		"a space":             {"a b", "' '"},
		"a back-tick":         {"`id`", "'`'"},
		"empty":               {"", "is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := set(host, wrong.arg)
			refused(t, err, 400)
			requireRefusal(t, call(t, http.MethodPatch, d.url+"/infra-envs/"+env.String()+"/hosts/"+host.String()+
				"/installer-args", object{"args": []string{wrong.arg}}), 400, wrong.contains)
		})
	}
}

func TestValidations_ignoredOnRequest(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	ignore := func(cluster strfmt.UUID, clusterIDs, hostIDs string) (*models.IgnoredValidations, error) {
		got, err := d.Installer.V2SetIgnoredValidations(t.Context(), &installer.V2SetIgnoredValidationsParams{
			ClusterID: cluster, IgnoredValidations: &models.IgnoredValidations{ClusterValidationIds: clusterIDs,
				HostValidationIds: hostIDs},
		})
		if err != nil {
			return nil, err
		}
		return got.Payload, nil
	}
	show := func(cluster strfmt.UUID) (*models.IgnoredValidations, error) {
		got, err := d.Installer.V2GetIgnoredValidations(t.Context(),
			&installer.V2GetIgnoredValidationsParams{ClusterID: cluster})
		if err != nil {
			return nil, err
		}
		return got.Payload, nil
	}
	_, err := show(missingID())
	refused(t, err, 404)
	_, err = ignore(missingID(), "", "")
	refused(t, err, 404)
	none, err := show(cluster)
	require.NoError(t, err)
	require.Equal(t, models.IgnoredValidations{}, *none)

	wanted := models.IgnoredValidations{ClusterValidationIds: `["ntp-server-configured"]`, HostValidationIds: `["all"]`}
	set, err := ignore(cluster, wanted.ClusterValidationIds, wanted.HostValidationIds)
	require.NoError(t, err)
	require.Equal(t, wanted, *set)
	shown, err := show(cluster)
	require.NoError(t, err)
	require.Equal(t, wanted, *shown)
	require.Contains(t, d.events(cluster), "validations_ignored")
	for _, list := range []string{"", "[]"} {
		_, err = ignore(cluster, list, list)
		require.NoError(t, err)
		require.NotContains(t, d.get(cluster).FeatureUsage, "Validations have been ignored")
	}

	for name, wrong := range map[string]struct{ clusterIDs, hostIDs, contains string }{
		"no list":                  {"ntp-synced", "", "must be a JSON list of ids"},
		"not known of clusters":    {`["ntp-synced"]`, "", `"ntp-synced" is not a cluster validation`},
		"not known of hosts":       {"", `["api-vips-defined"]`, `"api-vips-defined" is not a host validation`},
		"that a cluster must meet": {`["api-vips-defined"]`, "", `"api-vips-defined" can't be ignored`},
		"that a host must meet": {"", `["connected", "hostname-unique"]`,
			`"connected" can't be ignored, "hostname-unique" can't be ignored`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ignore(cluster, wrong.clusterIDs, wrong.hostIDs)
			refused(t, err, 400)
			requireRefusal(t, call(t, http.MethodPut, d.url+"/clusters/"+cluster.String()+"/ignored-validations",
				object{"cluster-validation-ids": wrong.clusterIDs, "host-validation-ids": wrong.hostIDs}), 400,
				wrong.contains)
		})
	}
}

func TestHostValidations_oneTimeChecksReset(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env, loose := d.infraEnv(&cluster), d.infraEnv(nil)
	host, unbound := d.host(env), d.host(loose)
	reset := func(env, host strfmt.UUID, id string) error {
		_, err := d.Installer.V2ResetHostValidation(t.Context(), &installer.V2ResetHostValidationParams{InfraEnvID: env,
			HostID: host, ValidationID: id})
		return err
	}
	for _, id := range []string{"sufficient-installation-disk-speed", "container-images-available"} {
		require.NoError(t, reset(env, host, id))
		refused(t, reset(env, missingID(), id), 404)
		refused(t, reset(loose, unbound, id), 409)
	}
	refused(t, reset(env, host, "ntp-synced"), 400)
}
