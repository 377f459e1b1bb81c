package settings

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/notice"
	"landfall/appliance/settings"
	"landfall/web"
	"landfall/web/console"
)

// fakeSettings implements console.Settings. It answers the first request for the checklist before
// its checks have ended.
type fakeSettings struct {
	shown   settings.Settings
	changed settings.Change
	added   settings.NewRelease
	removed string
	asked   int

	webhooks []notice.Webhook
	wanted   notice.NewWebhook
}

func (f *fakeSettings) List(func(string) bool) ([]*notice.Notification, error) { return nil, nil }

func (f *fakeSettings) Webhooks() ([]notice.Webhook, error) { return f.webhooks, nil }

func (f *fakeSettings) Add(_ context.Context, wanted notice.NewWebhook) (*notice.Added, error) {
	f.wanted = wanted
	added := &notice.Added{Webhook: notice.Webhook{Name: wanted.Name}}
	if wanted.Secret == "" {
		added.Secret = "whsec_made"
	}
	return added, nil
}

func (f *fakeSettings) Remove(_ context.Context, name string) error {
	f.removed = name
	return nil
}

func (f *fakeSettings) Try(_ context.Context, name string) error {
	if name != "chat" {
		return fault.New(fault.Unavailable, "The webhook %s did not take it.", name)
	}
	return nil
}

func (f *fakeSettings) Show() (*settings.Settings, error) { return &f.shown, nil }

func (f *fakeSettings) Change(_ context.Context, wanted settings.Change) (*settings.Settings, error) {
	f.changed = wanted
	return &f.shown, nil
}

func (f *fakeSettings) AddRelease(_ context.Context, wanted settings.NewRelease) (*settings.Release, error) {
	if !strings.Contains(wanted.Release, "/") {
		return nil, fault.New(fault.Invalid, "%q is not a pull spec.", wanted.Release)
	}
	f.added = wanted
	return &settings.Release{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64"}, nil
}

func (f *fakeSettings) RemoveRelease(_ context.Context, version, architecture string) error {
	f.removed = version + " " + architecture
	return nil
}

func (f *fakeSettings) Setup() (*settings.Setup, error) {
	f.asked++
	line := settings.Line{ID: "url", State: settings.StateChecking, Result: "It is checked."}
	if f.asked > 1 {
		line = settings.Line{ID: "url", State: settings.StateFailed, Result: "It does not answer.",
			Advice: "Set another."}
	}
	return &settings.Setup{Lines: []settings.Line{line}}, nil
}

// landfall runs a command against an appliance with the given settings.
func landfall(t *testing.T, of *fakeSettings, arguments ...string) (string, error) {
	t.Helper()
	server := web.New(web.Options{})
	require.NoError(t, server.Register(append(console.SettingsOperations(of), console.NoticeOperations(of)...)...))
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	t.Setenv("LANDFALL_URL", listening.URL)
	root := &cobra.Command{Use: "landfall", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(func(parent *cobra.Command, commands ...*cobra.Command) {
		parent.AddCommand(commands...)
	})...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(arguments)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func siteSettings() settings.Settings {
	return settings.Settings{
		Releases: []settings.Release{
			{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64", URL: "m/ocp:1", Default: true,
				Source: "configuration", State: settings.StateReady},
			{OpenshiftVersion: "4.20.9", CPUArchitecture: "x86_64", URL: "m/ocp:2", Source: "administrator",
				State: settings.StateFailed, Message: "The registry does not answer."},
			{OpenshiftVersion: "4.20.9", CPUArchitecture: "arm64", URL: "m/ocp:3", Source: "administrator",
				State: settings.StateReady},
		},
		PullSecret: settings.PullSecret{Set: true, Fixed: true, Registries: []string{"m:5000"}},
		URL:        settings.URL{Value: "https://192.0.2.10:8090", RestartNeeded: true},
	}
}

func TestShow_tableAndJSON(t *testing.T) {
	of := &fakeSettings{shown: siteSettings()}
	out, err := landfall(t, of, "settings", "show")
	require.NoError(t, err)
	require.Equal(t, `URL for hosts  https://192.0.2.10:8090 (after a restart)
pull secret    for m:5000 (configuration file)
SSH key        none
time servers   none

VERSION  ARCHITECTURE  DEFAULT  SOURCE         STATE   PULL SPEC
4.20.8   x86_64        yes      configuration  ready   m/ocp:1
4.20.9   x86_64                 administrator  failed  m/ocp:2
4.20.9   arm64                  administrator  ready   m/ocp:3

4.20.9 (x86_64): The registry does not answer.
`, out)
	out, err = landfall(t, of, "settings", "show", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"restart_needed": true`)
	_, err = landfall(t, of, "settings", "show", "-o", "xml")
	require.ErrorContains(t, err, `"xml"`)
	require.ErrorContains(t, err, "the format is one of table, wide, json, yaml")
}

func TestSet_onlyGivenSettings(t *testing.T) {
	dir := t.TempDir()
	secret, key := filepath.Join(dir, "pull-secret.json"), filepath.Join(dir, "id.pub")
	require.NoError(t, os.WriteFile(secret, []byte(`{"auths":{}}`), 0o600))
	require.NoError(t, os.WriteFile(key, []byte("ssh-ed25519 AAAA"), 0o600))
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		arguments []string
		want      settings.Change
	}{
		"files": {[]string{"--pull-secret-file", secret, "--ssh-key-file", key},
			settings.Change{PullSecret: text(`{"auths":{}}`), SSHPublicKey: text("ssh-ed25519 AAAA")}},
		"time servers": {[]string{"--ntp", "192.0.2.1,192.0.2.2", "--ntp", "ntp"},
			settings.Change{NTPSources: &[]string{"192.0.2.1", "192.0.2.2", "ntp"}}},
		"URL": {[]string{"--url-for-hosts", "https://x"}, settings.Change{URL: text("https://x")}},
		"removal": {[]string{"--pull-secret-file", "", "--ntp", ""},
			settings.Change{PullSecret: text(""), NTPSources: &[]string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			of := &fakeSettings{shown: siteSettings()}
			_, err := landfall(t, of, append([]string{"settings", "set"}, c.arguments...)...)
			require.NoError(t, err)
			require.Equal(t, c.want, of.changed)
		})
	}
	_, err := landfall(t, new(fakeSettings), "settings", "set")
	require.ErrorContains(t, err, "no setting is given")
	_, err = landfall(t, new(fakeSettings), "settings", "set", "--ssh-key-file", filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRelease_addAndRemove(t *testing.T) {
	of := &fakeSettings{shown: siteSettings()}
	out, err := landfall(t, of, "settings", "release", "add", "m/ocp:4", "--default")
	require.NoError(t, err)
	require.Equal(t, "4.20.8 (x86_64): added\n", out)
	require.Equal(t, settings.NewRelease{Release: "m/ocp:4", Default: true}, of.added)
	_, err = landfall(t, of, "settings", "release", "add", "4.20.8")
	require.ErrorContains(t, err, "not a pull spec")

	out, err = landfall(t, of, "settings", "release", "remove", "4.20.8")
	require.NoError(t, err)
	require.Equal(t, "4.20.8 (x86_64): removed\n", out)
	require.Equal(t, "4.20.8 x86_64", of.removed)
	_, err = landfall(t, of, "settings", "release", "remove", "4.20.9")
	require.EqualError(t, err, "the site has release 4.20.9 for x86_64 and arm64; name one with --architecture")
	_, err = landfall(t, of, "settings", "release", "remove", "4.20.9", "--architecture", "arm64")
	require.NoError(t, err)
	require.Equal(t, "4.20.9 arm64", of.removed)
	_, err = landfall(t, of, "settings", "release", "remove", "4.1.0")
	require.ErrorContains(t, err, "landfall settings show lists the releases")
}

func TestSetup_waitsForChecks(t *testing.T) {
	out, err := landfall(t, new(fakeSettings), "setup")
	require.NoError(t, err)
	require.Equal(t, "failed    It does not answer.\n          Set another.\n\nThe site is not ready yet.\n", out)
}

func TestWebhook_commands(t *testing.T) {
	of := new(fakeSettings)
	out, err := landfall(t, of, "settings", "webhook", "list")
	require.NoError(t, err)
	require.Equal(t, "No webhooks. Add one with landfall settings webhook add.\n", out)

	out, err = landfall(t, of, "settings", "webhook", "add", "chat", "https://chat.test/1")
	require.NoError(t, err)
	require.Equal(t, "chat: added\nThe secret for the receiver, which is not shown again: whsec_made\n", out)
	require.Equal(t, notice.NewWebhook{Name: "chat", URL: "https://chat.test/1"}, of.wanted)

	dir := t.TempDir()
	for name, content := range map[string]string{"url": "https://chat.test/2\n", "secret": "a secret\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	files := []string{"--url-file", filepath.Join(dir, "url"), "--secret-file", filepath.Join(dir, "secret")}
	out, err = landfall(t, of, append([]string{"settings", "webhook", "add", "chat"}, files...)...)
	require.NoError(t, err)
	require.Equal(t, "chat: added\n", out)
	require.Equal(t, notice.NewWebhook{Name: "chat", URL: "https://chat.test/2", Secret: "a secret"}, of.wanted)
	out, err = landfall(t, of, append([]string{"settings", "webhook", "add", "chat", "--dry-run"}, files...)...)
	require.NoError(t, err)
	require.NotContains(t, out, "a secret")
	for _, arguments := range [][]string{{}, append([]string{"https://chat.test"}, files...)} {
		_, err = landfall(t, of, append([]string{"settings", "webhook", "add", "chat"}, arguments...)...)
		require.ErrorContains(t, err, "give the URL of the webhook, either after its name or with --url-file")
	}

	of.webhooks = []notice.Webhook{{Name: "chat", URL: "https://chat.test/…", Pending: 2, Problem: "It is off."}}
	out, err = landfall(t, of, "settings", "webhook", "list")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^chat +https://chat.test/… +- +2 +It is off\.$`, out)

	out, err = landfall(t, of, "settings", "webhook", "test", "chat")
	require.NoError(t, err)
	require.Equal(t, "chat: the receiver took the test message\n", out)
	_, err = landfall(t, of, "settings", "webhook", "test", "other")
	require.ErrorContains(t, err, "did not take it")

	_, err = landfall(t, of, "settings", "webhook", "remove", "chat", "--yes")
	require.NoError(t, err)
	require.Equal(t, "chat", of.removed)
}
