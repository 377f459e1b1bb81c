package appliance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/store"
	"landfall/web"
	webaccess "landfall/web/access"
	"landfall/web/console"
	"landfall/web/operation"
)

// Each operation that can be tried is tried, and then carried out with the same body. Both have the
// same outcome, but the dry run changes nothing.
func TestDryRun_eachOperation(t *testing.T) {
	g := newGuardedAt(t, clockwork.NewFakeClock())
	own := ids{g.cluster, g.env, g.newHost(t, g.env)}
	var pool struct{ ID string }
	g.post(t, "/api/assisted-install/v2/infra-envs", map[string]any{"name": "pool", "pull_secret": testPullSecret,
		"openshift_version": "4.20.0"}, &pool)
	late := ids{g.cluster, pool.ID, g.newHost(t, pool.ID)}
	require.NoError(t, g.db.Update(t.Context(), func(tx *store.Tx) error {
		row, err := record.Hosts.Get(tx, late.env+"/"+late.host)
		if err != nil {
			return err
		}
		known := *row
		known.API.Status = conv.Pointer(lifecycle.HostKnownUnbound)
		return record.Hosts.Put(tx, late.env+"/"+late.host, &known)
	}))
	code, err := g.SetupCode()
	require.NoError(t, err)
	g.post(t, webaccess.BasePath+"/setup", map[string]any{"code": code, "name": "ada", "password": adminPassword},
		new(any))
	tried := map[string]operation.Operation{}
	for _, o := range g.server.Routes() {
		if o.DryRun {
			tried[o.ID] = o
		}
	}
	const server = `{"name": "chat", "address": "redfish://192.0.2.1", "username": "root", "password": "calvin"}`
	done := map[string]bool{}
	for _, c := range []struct {
		id, body string
		at       ids
		accepted bool
	}{
		{"v2RegisterCluster", `{"name": "new", "openshift_version": "4.20.0", "pull_secret": "` +
			strings.ReplaceAll(testPullSecret, `"`, `\"`) + `"}`, own, true},
		{"v2RegisterCluster", `{"name": "-", "openshift_version": "4.20.0", "pull_secret": "` +
			strings.ReplaceAll(testPullSecret, `"`, `\"`) + `"}`, own, false},
		{"V2UpdateCluster", `{"name": "renamed"}`, own, true},
		{"V2UpdateCluster", `{"name": "` + strings.Repeat("a", 99) + `"}`, own, false},
		{"v2UpdateClusterInstallConfig", `"{\"fips\": true}"`, own, true},
		{"v2SetIgnoredValidations", `{"host-validation-ids": "[\"has-min-memory\"]"}`, own, true},
		{"V2CreateClusterManifest", `{"folder": "manifests", "file_name": "a.yaml", "content": "a2luZDogTGlzdA=="}`, own,
			true},
		{"V2CreateClusterManifest", `{"folder": "manifests", "file_name": "a.txt", "content": "a2luZDogTGlzdA=="}`, own,
			false},
		{"V2UpdateClusterManifest", `{"folder": "manifests", "file_name": "a.yaml", "updated_file_name": "b.yaml"}`, own,
			true},
		{"V2DeleteClusterManifest", "", own, true},
		{"addWebhook", `{"name": "chat", "url": "https://chat.example.com"}`, own, true},
		{"addWebhook", `{"name": "chat", "url": "https://chat.example.com"}`, own, false},
		{"removeWebhook", "", own, true},
		{"createUser", `{"name": "chat", "password": "` + adminPassword + `", "role": "viewer"}`, own, true},
		{"updateUser", `{"role": "operator"}`, own, true},
		{"setUserPassword", `{"new": "another ` + adminPassword + `"}`, own, true},
		{"setUserPassword", `{"new": "short"}`, own, false},
		{"deleteUser", "", own, true},
		{"revokeToken", "", own, false},
		{"changeSettings", `{"ntp_sources": ["192.0.2.1"]}`, own, true},
		{"changeSettings", `{"ssh_public_key": "none"}`, own, false},
		{"addRelease", `{"release": "none at all"}`, own, false},
		{"removeRelease", "", own, false},
		{"createBMC", server, own, true},
		{"createBMC", server, own, false},
		{"updateBMC", `{"boot_mac": "52:54:00:00:00:01"}`, own, true},
		{"updateBMC", `{"boot_mac": "none"}`, own, false},
		{"bootBMC", `{"infra_env_id": "` + g.env + `"}`, own, true},
		{"powerBMC", `{"action": "off"}`, own, true},
		{"ejectBMC", "", own, true},
		{"inspectBMC", "", own, true},
		{"deleteBMC", "", own, true},
		{"v2InstallCluster", "", own, false},
		{"V2CancelInstallation", "", own, false},
		{"v2ResetCluster", "", own, false},
		{"TransformClusterToDay2", "", own, false},
		{"v2ImportCluster", `{"name": "old", "api_vip_dnsname": "api.old.example.com", "openshift_cluster_id": "` +
			uuid.NewString() + `"}`, own, true},
		{"RegisterInfraEnv", `{"name": "more", "openshift_version": "4.20.0", "pull_secret": "` +
			strings.ReplaceAll(testPullSecret, `"`, `\"`) + `"}`, own, true},
		{"UpdateInfraEnv", `{"additional_ntp_sources": "192.0.2.1"}`, own, true},
		{"v2UpdateHost", `{"host_name": "renamed"}`, own, true},
		{"v2UpdateHost", `{"host_name": "Renamed"}`, own, false},
		{"v2UpdateHostIgnition", `{"config": "{\"ignition\": {\"version\": \"3.1.0\"}}"}`, own, true},
		{"v2UpdateHostInstallerArgs", `{"args": ["--append-karg", "a=b"]}`, own, true},
		{"approveHost", "", own, true},
		{"v2InstallHost", "", own, false},
		{"v2ResetHost", "", own, false},
		{"BindHost", `{"cluster_id": "` + g.cluster + `"}`, late, true},
		{"UnbindHost", "", late, true},
		{"DeregisterInfraEnv", "", late, false},
		{"v2DeregisterHost", "", late, true},
		{"DeregisterInfraEnv", "", late, true},
		{"v2DeregisterCluster", "", own, true},
	} {
		o, known := tried[c.id]
		require.True(t, known, c.id)
		done[c.id] = true
		named := o.Path
		if strings.HasPrefix(named, console.BMCsRoute) {
			named = strings.Replace(named, ":id", ":name", 1)
		}
		path := strings.NewReplacer(":name", "chat", ":architecture", "x86_64").Replace(c.at.path(named))
		if c.id == "V2DeleteClusterManifest" {
			path += "?folder=manifests&file_name=b.yaml"
		}
		before := g.db.Revision()
		dry := g.request(t, o.Method, web.DryRunPath+path, c.body, g.callers["admin"])
		require.Equal(t, before, g.db.Revision(), "%s: the dry run changed something", c.id)
		carriedOut := g.request(t, o.Method, path, c.body, g.callers["admin"])
		require.Equal(t, c.accepted, carriedOut.Code < 300, "%s: %d %s", c.id, carriedOut.Code, carriedOut.Body)
		if c.accepted {
			require.Equal(t, http.StatusOK, dry.Code, "%s: %s", c.id, dry.Body)
			require.JSONEq(t, `{"dry_run": true}`, dry.Body.String(), c.id)
			require.Less(t, before, g.db.Revision(), c.id)
			continue
		}
		require.Equal(t, carriedOut.Code, dry.Code, c.id)
		require.Equal(t, carriedOut.Body.String(), dry.Body.String(), c.id)
	}
	for id := range tried {
		require.True(t, done[id], "%s: this test needs a request of it", id)
	}
}

func TestDryRun_refused(t *testing.T) {
	g := newGuardedAt(t, clockwork.NewFakeClock())
	before := g.db.Revision()
	for _, c := range []struct {
		method, path, as string
		status           int
	}{
		{http.MethodDelete, "/api/assisted-install/v2/clusters/" + g.cluster, "viewer", http.StatusForbidden},
		{http.MethodDelete, "/api/assisted-install/v2/clusters/" + g.cluster, "nobody", http.StatusUnauthorized},
		{http.MethodDelete, "/api/assisted-install/v2/clusters/" + g.cluster, "limited to others",
			http.StatusForbidden},
		{http.MethodPost, "/api/landfall/v1/tokens", "admin", http.StatusNotImplemented},
		{http.MethodGet, "/api/assisted-install/v2/clusters", "admin", http.StatusNotImplemented},
		{http.MethodPost, "/api/landfall/v1/nothing", "admin", http.StatusMethodNotAllowed},
		{http.MethodPost, "", "admin", http.StatusMethodNotAllowed},
	} {
		answer := g.request(t, c.method, web.DryRunPath+c.path, "{}", g.callers[c.as])
		require.Equal(t, c.status, answer.Code, "%s %s as %s: %s", c.method, c.path, c.as, answer.Body)
	}
	require.Equal(t, before, g.db.Revision())
}

// The audit trail has changes; a dry run is none.
func TestDryRun_notInAuditTrail(t *testing.T) {
	g := newGuardedAt(t, clockwork.NewFakeClock())
	path := "/api/assisted-install/v2/clusters/" + g.cluster
	remove := func(path string) int {
		return g.request(t, http.MethodDelete, path, "", g.callers["admin"]).Code
	}
	require.Equal(t, http.StatusOK, remove(web.DryRunPath+path))
	entries := func() int {
		page, err := g.trail.List(t.Context(), audittrail.Filter{Operation: "v2DeregisterCluster", Limit: 10})
		require.NoError(t, err)
		return len(page.Items)
	}
	require.Zero(t, entries())
	require.Equal(t, http.StatusNoContent, remove(path))
	require.NotZero(t, entries())
}
