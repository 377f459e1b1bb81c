package appliance_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/release/trust"
	"landfall/appliance/settings"
	"landfall/web/console"
)

const (
	settingsPath = "/api/landfall/v1/settings"
	setupPath    = "/api/landfall/v1/setup"
	siteKeyLine  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJxXOL0ECCGJuB6uwG6+XY0qXqlWxWQv4tqoSnvq6TQJ engineer"
)

// unconfigured returns a site whose configuration has no releases.
func unconfigured(t *testing.T) *site {
	s := newSite(t)
	s.config.ReleaseImages = nil
	return s
}

func readSettings(t *testing.T, address string) (shown settings.Settings) {
	t.Helper()
	call(t, http.MethodGet, address+settingsPath, nil).read(t, http.StatusOK, &shown)
	return shown
}

// setupLine returns a line of the checklist when its check has ended.
func setupLine(t *testing.T, address, id string) (line settings.Line) {
	t.Helper()
	eventually(t, "the line "+id+" is checked", func() bool {
		var setup settings.Setup
		call(t, http.MethodGet, address+setupPath, nil).read(t, http.StatusOK, &setup)
		for _, line = range setup.Lines {
			requireSentence(t, line.Result)
			if line.Advice != "" {
				requireSentence(t, line.Advice)
			}
			if line.ID == id {
				return line.State != settings.StateChecking
			}
		}
		require.Fail(t, "no line "+id)
		return false
	})
	return line
}

// TestSettings_releaseAddedWhileRunning installs a cluster with a release, a pull secret and an SSH
// key that are not in the configuration.
func TestSettings_releaseAddedWhileRunning(t *testing.T) {
	s := unconfigured(t)
	c := s.connect(t)
	d := c.appliance(t, s)
	require.Equal(t, settings.StateMissing, setupLine(t, c.address, "release").State)
	requireRefusal(t, call(t, http.MethodPost, d.url+"/clusters", s.newCluster("east")), http.StatusBadRequest,
		"no OpenShift release", "settings")

	var added settings.Release
	call(t, http.MethodPost, c.address+settingsPath+"/releases", object{"release": s.release.Release}).
		read(t, http.StatusCreated, &added)
	require.Equal(t, settings.Release{OpenshiftVersion: s.release.Version, CPUArchitecture: "x86_64",
		URL: s.release.Release, Default: true, Source: settings.SourceAdministrator, State: settings.StateReady}, added)
	require.Equal(t, settings.StateDone, setupLine(t, c.address, "release").State)
	require.Equal(t, settings.StateDone, setupLine(t, c.address, "os-image").State)
	call(t, http.MethodPatch, c.address+settingsPath, object{"pull_secret": pullSecret,
		"ssh_public_key": siteKeyLine, "ntp_sources": []string{"192.0.2.1"}}).read(t, http.StatusOK,
		new(settings.Settings))

	description := s.newCluster("east")
	delete(description, "pull_secret")
	delete(description, "openshift_version")
	description["openshift_version"] = strings.Join(strings.Split(s.release.Version, ".")[:2], ".")
	cluster := strfmt.UUID(create(t, d.url+"/clusters", description))
	removal := c.address + settingsPath + "/releases/" + s.release.Version + "/x86_64"
	requireRefusal(t, call(t, http.MethodDelete, removal, nil), http.StatusConflict, "cluster east")
	env := strfmt.UUID(create(t, d.url+"/infra-envs", object{"name": "east", "cluster_id": cluster}))
	shown, err := d.Installer.GetInfraEnv(t.Context(), installer.NewGetInfraEnvParams().WithInfraEnvID(env))
	require.NoError(t, err)
	require.Equal(t, siteKeyLine, shown.Payload.SSHAuthorizedKey)
	require.Equal(t, "192.0.2.1", shown.Payload.AdditionalNtpSources)
	require.Equal(t, siteKeyLine, d.get(cluster).SSHPublicKey)
	d.group(env, 1)
	d.until(cluster, models.ClusterStatusReady)
	_, err = d.Installer.V2InstallCluster(t.Context(), installer.NewV2InstallClusterParams().WithClusterID(cluster))
	require.NoError(t, err)
	d.until(cluster, models.ClusterStatusInstalled)

	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, removal, nil).status)
	require.Empty(t, readSettings(t, c.address).Releases)
	requireRefusal(t, call(t, http.MethodDelete, removal, nil), http.StatusNotFound, "landfall settings show")
}

func TestSettings_refusals(t *testing.T) {
	free := unconfigured(t)
	freeAddress, _ := free.start(t)
	fixed := newSite(t)
	secret := filepath.Join(t.TempDir(), "pull-secret.json")
	require.NoError(t, os.WriteFile(secret, []byte(pullSecret), 0o600))
	fixed.config.Mirror.PullSecret, fixed.config.NTPSources = secret, []string{"192.0.2.9"}
	fixed.config.URL = []string{"http://192.0.2.10:8090"}
	fixedAddress, _ := fixed.start(t)

	for name, c := range map[string]struct {
		address, method, path string
		body                  object
		status                int
		contains              []string
	}{
		"pull secret is not JSON": {freeAddress, http.MethodPatch, "", object{"pull_secret": "no"},
			http.StatusBadRequest, []string{"not JSON"}},
		"SSH key is private": {freeAddress, http.MethodPatch, "", object{"ssh_public_key": "-----BEGIN"},
			http.StatusBadRequest, []string{"not a public key"}},
		"time server is a URL": {freeAddress, http.MethodPatch, "", object{"ntp_sources": []string{"http://x/"}},
			http.StatusBadRequest, []string{"neither an address nor a host name"}},
		"URL without a scheme": {freeAddress, http.MethodPatch, "", object{"url": "192.0.2.10"},
			http.StatusBadRequest, []string{"expected an http:// or https:// URL"}},
		"unknown setting": {freeAddress, http.MethodPatch, "", object{"pul_secret": ""},
			http.StatusBadRequest, []string{"pul_secret"}},
		"pull secret of the configuration": {fixedAddress, http.MethodPatch, "", object{"pull_secret": pullSecret},
			http.StatusConflict, []string{"key mirror.pull_secret"}},
		"time servers of the configuration": {fixedAddress, http.MethodPatch, "", object{"ntp_sources": []string{}},
			http.StatusConflict, []string{"key ntp_sources"}},
		"URL of the configuration": {fixedAddress, http.MethodPatch, "", object{"url": ""},
			http.StatusConflict, []string{"key url"}},
		"release without a registry": {freeAddress, http.MethodPost, "/releases", object{"release": "4.20.8"},
			http.StatusBadRequest, []string{"not the pull spec", "digest, such as"}},
		"release that no registry has": {freeAddress, http.MethodPost, "/releases", object{
			"release": "quay.io/openshift-release-dev/ocp-release:4.99.0-x86_64"},
			http.StatusServiceUnavailable, []string{"4.99.0-x86_64 can't be read", "pull secret"}},
		"release of the " +
			"configuration": {fixedAddress, http.MethodPost, "/releases", object{"release": fixed.release.Release},
			http.StatusConflict, []string{"key release_images"}},
		"removal of a release of the " +
			"configuration": {fixedAddress, http.MethodDelete, "/releases/" + fixed.release.Version +
			"/x86_64", nil, http.StatusConflict, []string{"key release_images"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := readSettings(t, c.address)
			var body any
			if c.body != nil {
				body = c.body
			}
			requireRefusal(t, call(t, c.method, c.address+settingsPath+c.path, body), c.status, c.contains...)
			after := readSettings(t, c.address)
			before.Releases, after.Releases = nil, nil // their states are checked meanwhile
			require.Equal(t, before, after)
		})
	}
	shown := readSettings(t, fixedAddress)
	require.Equal(t, settings.PullSecret{Set: true, Fixed: true, Registries: []string{"quay.io"}}, shown.PullSecret)
	require.Equal(t, settings.List{Value: []string{"192.0.2.9"}, Fixed: true}, shown.NTPSources)
	require.True(t, shown.URL.Fixed)
	require.Equal(t, settings.SourceConfiguration, shown.Releases[0].Source)
}

// TestSettings_restartKeepsThem also checks that no answer, record, log line or file shows the pull
// secret.
func TestSettings_restartKeepsThem(t *testing.T) {
	s := unconfigured(t)
	places := plantedSecrets{T: t}
	password := places.secret("password")
	encodedPair := *encoded("engineer:" + password)
	log := new(bytes.Buffer)
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	address, stop := s.startLogging(t, logger)
	changed := call(t, http.MethodPatch, address+settingsPath, object{
		"pull_secret":    `{"auths":{"mirror.example.com:5000":{"auth":"` + encodedPair + `"}}}`,
		"ssh_public_key": siteKeyLine + "\n", "ntp_sources": []string{" ntp.example.com ", "192.0.2.1", "192.0.2.1"},
		"url": "http://192.0.2.77:8090/"})
	var shown settings.Settings
	changed.read(t, http.StatusOK, &shown)
	require.Equal(t, "http://192.0.2.77:8090", shown.URL.Value)
	require.True(t, shown.URL.RestartNeeded)
	require.Equal(t, "Restart the appliance.", setupLine(t, address, "url").Advice)
	require.Equal(t, http.StatusCreated, call(t, http.MethodPost, address+settingsPath+"/releases",
		object{"release": s.release.Release}).status)
	var trail audittrail.Page
	call(t, http.MethodGet, address+"/api/landfall/v1/audit", nil).read(t, http.StatusOK, &trail)
	record, err := json.Marshal(trail)
	require.NoError(t, err)
	require.Contains(t, string(record), `"changeSettings"`)
	require.Contains(t, string(record), `"addRelease"`)
	stop()

	address, stop = s.startLogging(t, logger)
	shown = readSettings(t, address)
	require.Equal(t, []string{"mirror.example.com:5000"}, shown.PullSecret.Registries)
	require.Equal(t, siteKeyLine, shown.SSHPublicKey.Value)
	require.Equal(t, []string{"ntp.example.com", "192.0.2.1"}, shown.NTPSources.Value)
	require.Equal(t, "http://192.0.2.77:8090", shown.URL.Value)
	require.False(t, shown.URL.RestartNeeded)
	require.Equal(t, "http://192.0.2.77:8090", s.running.URLs()[0])
	require.Len(t, shown.Releases, 1)
	require.Equal(t, s.release.Release, shown.Releases[0].URL)
	text, err := json.Marshal(shown)
	require.NoError(t, err)
	var cleared settings.Settings
	call(t, http.MethodPatch, address+settingsPath, object{"pull_secret": "", "ssh_public_key": "",
		"ntp_sources": []string{}, "url": ""}).read(t, http.StatusOK, &cleared)
	require.False(t, cleared.PullSecret.Set)
	require.Empty(t, cleared.SSHPublicKey.Value)
	require.Empty(t, cleared.NTPSources.Value)
	require.True(t, cleared.URL.RestartNeeded)
	require.Equal(t, cleared.URL.Candidates[0], cleared.URL.Value, "the URL after the restart")
	stop()
	for name, content := range map[string][]byte{"answer": text, "audit trail": record, "log": log.Bytes()} {
		places.requireNone(name, content)
	}
	for _, path := range files(t, s.config.DataDir) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		places.requireNone(path, content)
	}
}

func TestSettings_missingPullSecretNamesBothWays(t *testing.T) {
	s := newSite(t)
	address, _ := s.start(t)
	for path, description := range map[string]object{"/clusters": s.newCluster("east"),
		"/infra-envs": s.newInfraEnv("east")} {
		delete(description, "pull_secret")
		requireRefusal(t, call(t, http.MethodPost, address+apiPath+path, description), http.StatusUnprocessableEntity,
			"send pull_secret", "landfall settings set --pull-secret-file")
	}
}

func TestSettings_configuredPullSecretIsDefault(t *testing.T) {
	s := newSite(t)
	s.config.Mirror.PullSecret = filepath.Join(t.TempDir(), "pull-secret.json")
	require.NoError(t, os.WriteFile(s.config.Mirror.PullSecret, []byte(pullSecret), 0o600))
	address, _ := s.start(t)
	description := s.newCluster("east")
	delete(description, "pull_secret")
	create(t, address+apiPath+"/clusters", description)
	require.Equal(t, settings.StateDone, setupLine(t, address, "pull-secret").State)
}

// TestVersions_releaseWithoutISOIsListed requires that the versions include a release without a
// live ISO, and that the checklist says what is missing.
func TestVersions_releaseWithoutISOIsListed(t *testing.T) {
	s := newSite(t)
	s.config.OSImages = nil
	address, _ := s.start(t)
	var versions models.OpenshiftVersions
	call(t, http.MethodGet, address+apiPath+"/openshift-versions", nil).read(t, http.StatusOK, &versions)
	require.Contains(t, versions, s.release.Version)
	line := setupLine(t, address, "os-image")
	require.Equal(t, settings.StateMissing, line.State)
	require.Equal(t, "No usable live ISO for "+s.release.Version+" (x86_64).", line.Result)
}

func TestVersions_emptyListHasReason(t *testing.T) {
	address, _ := unconfigured(t).start(t)
	var versions models.OpenshiftVersions
	call(t, http.MethodGet, address+apiPath+"/openshift-versions", nil).read(t, http.StatusOK, &versions)
	require.Empty(t, versions)
	line := setupLine(t, address, "release")
	require.Equal(t, settings.StateMissing, line.State)
	require.Contains(t, line.Advice, "landfall settings release add")
}

func TestSettings_doctorsVerdictOutlivesRestart(t *testing.T) {
	s := newSite(t)
	address, stop := s.start(t)
	require.Equal(t, settings.StateMissing, setupLine(t, address, "doctor").State)
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, address+"/api/landfall/v1/doctor", nil).status)
	verdict := setupLine(t, address, "doctor")
	require.Contains(t, verdict.Result, "The doctor found")
	stop()
	address, _ = s.start(t)
	require.Equal(t, verdict, setupLine(t, address, "doctor"))
}

// TestSettings_releaseOfInfraEnvStays requires that a release stays while an infra-env without a
// cluster needs it, and that its permission goes with it.
func TestSettings_releaseOfInfraEnvStays(t *testing.T) {
	s := unconfigured(t)
	address, _ := s.start(t)
	require.Equal(t, http.StatusCreated, call(t, http.MethodPost, address+settingsPath+"/releases",
		object{"release": s.release.Release, "default": true}).status)
	require.Equal(t, http.StatusCreated, call(t, http.MethodPost, address+settingsPath+"/releases",
		object{"release": s.release.Release}).status, "the same release again")
	require.Len(t, readSettings(t, address).Releases, 1)
	require.True(t, readSettings(t, address).Releases[0].Default)
	env := create(t, address+apiPath+"/infra-envs", s.newInfraEnv("pool"))
	removal := address + settingsPath + "/releases/" + s.release.Version + "/x86_64"
	requireRefusal(t, call(t, http.MethodDelete, removal, nil), http.StatusConflict, "infra-env pool")
	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, address+apiPath+"/infra-envs/"+env, nil).status)
	require.Equal(t, http.StatusNoContent, call(t, http.MethodDelete, removal, nil).status)
	var allowed trust.List
	call(t, http.MethodGet, address+releasesPath, nil).read(t, http.StatusOK, &allowed)
	require.Empty(t, allowed.Releases, "the permission goes with the release")
}

// TestSettings_tagBecomesDigest adds a release by its tag. A later change of the tag has no effect.
func TestSettings_tagBecomesDigest(t *testing.T) {
	s := unconfigured(t)
	address, _ := s.start(t)
	pushed, host := strangersRelease(t, filepath.Join(t.TempDir(), "marker"))
	var added settings.Release
	call(t, http.MethodPost, address+settingsPath+"/releases",
		object{"release": host + "/openshift/release-images:" + pushed.Version + "-x86_64"}).
		read(t, http.StatusCreated, &added)
	require.Equal(t, host+"/openshift/release-images@"+pushed.Digest, added.URL)
	require.Equal(t, pushed.Version, added.OpenshiftVersion)
	var allowed trust.List
	call(t, http.MethodGet, address+releasesPath, nil).read(t, http.StatusOK, &allowed)
	require.Len(t, allowed.Releases, 1)
	require.Equal(t, pushed.Digest, allowed.Releases[0].Digest)
}

// TestSettings_feedReportsChanges reads the live feed until it reports the settings.
func TestSettings_feedReportsChanges(t *testing.T) {
	address, _ := unconfigured(t).start(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+console.FeedRoute, nil)
	require.NoError(t, err)
	feed, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer feed.Body.Close()
	lines := bufio.NewScanner(feed.Body)
	require.True(t, lines.Scan(), "the feed has begun")
	call(t, http.MethodPatch, address+settingsPath, object{"ntp_sources": []string{"192.0.2.1"}}).
		read(t, http.StatusOK, new(settings.Settings))
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, `"kind"`) {
			var change console.Change
			require.NoError(t, json.Unmarshal([]byte(data), &change))
			require.Equal(t, "settings", change.Kind)
			require.NotContains(t, data, "192.0.2.1")
			return
		}
	}
	require.Fail(t, "the feed ended")
}
