package settings

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/doctor"
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/store"
)

// testService returns a service on an empty store. Its registry has all images, and connections
// succeed, unless the test changes that.
func testService(t *testing.T, address string, fixed Fixed) (*Service, *clockwork.FakeClock) {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	site, err := Open(Options{DB: db, Fixed: fixed})
	require.NoError(t, err)
	clock := clockwork.NewFakeClockAt(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	rules := new(mirror.Rules)
	s := NewService(ServiceOptions{
		Site: site, URL: address, Candidates: []string{address}, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		CheckImage: func(string, string) error { return nil },
		Rules:      func(mirror.Level) *mirror.Rules { return rules },
		Digest:     func(context.Context, string, authn.Keychain) (string, error) { return "", nil },
		Dial:       func(context.Context, string) error { return nil },
	})
	t.Cleanup(s.Close)
	return s, clock
}

var fixedRelease = Fixed{Releases: []engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
	URL: "mirror.example.com/ocp:4.20.8", Default: true}}}

// listenLocally lets the appliance listen where only its machine reaches it.
func listenLocally(s *Service) {
	s.Listener = doctor.Listener{Address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8090}, Authenticates: true}
}

// lineOf returns a line of the checklist after all checks that it starts.
func lineOf(t *testing.T, s *Service, id string) Line {
	t.Helper()
	_, err := s.Setup()
	require.NoError(t, err)
	s.checks.running.Wait()
	setup, err := s.Setup()
	require.NoError(t, err)
	s.checks.running.Wait()
	for _, line := range setup.Lines {
		if line.ID == id {
			return line
		}
	}
	require.Fail(t, "no line "+id)
	return Line{}
}

func TestSetup_eachLineInEachState(t *testing.T) {
	failing := errors.New("connection refused")
	for name, c := range map[string]struct {
		address string
		fixed   Fixed
		change  func(*Service)
		want    Line
	}{
		"url answers": {want: Line{ID: "url", State: StateDone,
			Result: "Hosts reach the appliance at https://192.0.2.10:8090."}},
		"url of this machine only": {address: "https://127.0.0.1:8090", want: Line{ID: "url", State: StateFailed,
			Result: "The URL for hosts is https://127.0.0.1:8090, which only this machine reaches.",
			Advice: "Set a URL that hosts can reach in the settings, or with landfall settings set --url-for-hosts " +
				"URL."}},
		"url of a listener of this machine": {address: "https://127.0.0.1:8090", change: listenLocally,
			want: Line{ID: "url", State: StateFailed, Key: "listen",
				Result: "The appliance listens on 127.0.0.1:8090, which only this machine reaches.",
				Advice: "Set listen to 0.0.0.0:8090 in the configuration file (or LANDFALL_LISTEN, or the flag " +
					"--listen), and restart the appliance."}},
		"another url of a listener of this machine": {change: func(s *Service) {
			listenLocally(s)
			s.Dial = func(context.Context, string) error { return failing }
		}, want: Line{ID: "url", State: StateFailed, Key: "listen",
			Result: "The URL for hosts, https://192.0.2.10:8090, does not answer: connection refused.",
			Advice: "Set listen to 0.0.0.0:8090 in the configuration file (or LANDFALL_LISTEN, or the flag " +
				"--listen), and restart the appliance."}},
		"url does not answer": {change: func(s *Service) {
			s.Dial = func(context.Context, string) error { return failing }
		}, want: Line{ID: "url", State: StateFailed,
			Result: "The URL for hosts, https://192.0.2.10:8090, does not answer: connection refused.",
			Advice: "Set a URL that hosts can reach in the settings, or with landfall settings set --url-for-hosts " +
				"URL."}},
		"release is missing": {want: Line{ID: "release", State: StateMissing,
			Result: "The site has no OpenShift release.",
			Advice: "Add one in the settings, or with landfall settings release add PULLSPEC."}},
		"release can be read": {fixed: fixedRelease, want: Line{ID: "release", State: StateDone,
			Result: "The site has release 4.20.8 (x86_64)."}},
		"release can't be read": {fixed: fixedRelease, change: func(s *Service) {
			s.Digest = func(context.Context, string, authn.Keychain) (string, error) { return "", failing }
		}, want: Line{ID: "release", State: StateFailed,
			Result: "Release 4.20.8 (x86_64) can't be read: Connection refused.",
			Advice: "Check the registry, the mirror rules and the pull secret, or remove the release."}},
		"live ISO before a release": {want: Line{ID: "os-image", State: StateMissing,
			Result: "Without a release, no live ISO is needed yet.", Advice: "Add a release first."}},
		"live ISO is missing": {fixed: fixedRelease, change: func(s *Service) {
			s.CheckImage = func(string, string) error { return failing }
		}, want: Line{ID: "os-image", State: StateMissing, Result: "No usable live ISO for 4.20.8 (x86_64).",
			Advice: "Upload the live ISO of the release, give its URL, or take it out of the release payload: on the " +
				"page under OS images, or with landfall iso import."}},
		"live ISO is there": {fixed: fixedRelease, want: Line{ID: "os-image", State: StateDone,
			Result: "There is a live ISO for 4.20.8 (x86_64)."}},
		"no mirror": {fixed: fixedRelease, want: Line{ID: "mirror", State: StateOptional,
			Result: "The site has no mirror rules: images come from the registries that the releases name.",
			Advice: "If the site has a mirror registry, import its rules and its CA: on the page under Mirror, or " +
				"with landfall mirror import PATH."}},
		"no mirror, but the release is not elsewhere": {fixed: fixedRelease, change: func(s *Service) {
			s.Digest = func(context.Context, string, authn.Keychain) (string, error) { return "", failing }
		}, want: Line{ID: "mirror", State: StateMissing,
			Result: "The site has no mirror rules: images come from the registries that the releases name.",
			Advice: "If the site has a mirror registry, import its rules and its CA: on the page under Mirror, or " +
				"with landfall mirror import PATH."}},
		"time servers": {fixed: Fixed{NTPSources: []string{"192.0.2.1", "192.0.2.2"}}, want: Line{ID: "time",
			State: StateDone, Result: "Hosts take the time from 192.0.2.1, 192.0.2.2."}},
		"doctor did not look": {want: Line{ID: "doctor", State: StateMissing,
			Result: "The doctor has not checked the site yet.",
			Advice: "Run it on the page under Doctor, or with landfall doctor."}},
	} {
		t.Run(name, func(t *testing.T) {
			address := c.address
			if address == "" {
				address = "https://192.0.2.10:8090"
			}
			s, _ := testService(t, address, c.fixed)
			if c.change != nil {
				c.change(s)
			}
			require.Equal(t, c.want, lineOf(t, s, c.want.ID))
		})
	}
}

func TestSetup_completeWithoutOptionalLines(t *testing.T) {
	s, clock := testService(t, "https://192.0.2.10:8090", fixedRelease)
	secret := `{"auths":{"quay.io":{"auth":"dXNlcjpwYXNz"}}}`
	_, err := s.Change(t.Context(), Change{PullSecret: &secret})
	require.NoError(t, err)
	report := &doctor.Report{At: clock.Now(), Findings: []doctor.Finding{{Status: doctor.Red,
		Subject: "ntp.example.com", Result: "no answer"}}}
	require.NoError(t, s.NoteDiagnosis(t.Context(), report))
	require.Equal(t, Line{ID: "doctor", State: StateFailed, Result: "The doctor found 1 problem at 2026-01-02 " +
		"03:04 UTC; " +
		"the first is about ntp.example.com: no answer.", Advice: "Read the report under Doctor or with landfall " +
		"doctor, correct the problems, and run the doctor again."}, lineOf(t, s, "doctor"))
	setup, err := s.Setup()
	require.NoError(t, err)
	require.False(t, setup.Complete)
	report.Findings[0].Status = doctor.Amber
	require.NoError(t, s.NoteDiagnosis(t.Context(), report))
	setup, err = s.Setup()
	require.NoError(t, err)
	require.True(t, setup.Complete, "%v", setup.Lines)
}

func TestChecks_resultIsValidForAMinute(t *testing.T) {
	s, clock := testService(t, "https://192.0.2.10:8090", fixedRelease)
	asked := 0
	s.Digest = func(context.Context, string, authn.Keychain) (string, error) { asked++; return "", nil }
	state := func() State {
		shown, err := s.Show()
		require.NoError(t, err)
		s.checks.running.Wait()
		return shown.Releases[0].State
	}
	require.Equal(t, StateChecking, state())
	require.Equal(t, StateReady, state())
	require.Equal(t, 1, asked)
	clock.Advance(checkAgain)
	require.Equal(t, StateReady, state(), "the last result stays until the next one is known")
	require.Equal(t, 2, asked)
	secret := ""
	_, err := s.Change(t.Context(), Change{PullSecret: &secret})
	require.NoError(t, err)
	s.checks.running.Wait()
	require.Equal(t, StateReady, state())
	require.Equal(t, 3, asked, "another pull secret may have another answer")
}

func TestChecks_otherMirrorRulesNeedAnotherResult(t *testing.T) {
	s, _ := testService(t, "https://192.0.2.10:8090", fixedRelease)
	s.Digest = func(context.Context, string, authn.Keychain) (string, error) {
		return "", errors.New("no rule matches")
	}
	require.Equal(t, StateFailed, lineOf(t, s, "release").State)
	s.Digest = func(context.Context, string, authn.Keychain) (string, error) { return "", nil }
	require.Equal(t, StateFailed, lineOf(t, s, "release").State)
	rules := new(mirror.Rules)
	s.Rules = func(mirror.Level) *mirror.Rules { return rules }
	require.Equal(t, StateDone, lineOf(t, s, "release").State)
}

func TestKeepDefault_newestRelease(t *testing.T) {
	for name, c := range map[string]struct {
		fixed    Fixed
		removed  addedRelease
		defaults []string
	}{
		"default removed": {Fixed{}, addedRelease{Architecture: "x86_64", Default: true},
			[]string{"4.19.10"}},
		"another one removed":             {Fixed{}, addedRelease{Architecture: "x86_64"}, nil},
		"the configuration has a default": {fixedRelease, addedRelease{Architecture: "x86_64", Default: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := testService(t, "http://192.0.2.1:8090", c.fixed)
			remaining := &row{Releases: []addedRelease{{Version: "4.19.9", Architecture: "x86_64"},
				{Version: "4.19.10", Architecture: "x86_64"}, {Version: "4.20.8", Architecture: "arm64"}}}
			s.Site.keepDefault(remaining, c.removed)
			var defaults []string
			for _, release := range remaining.Releases {
				if release.Default {
					defaults = append(defaults, release.Version)
				}
			}
			require.Equal(t, c.defaults, defaults)
		})
	}
}

// A bare site has no settings; the newest release on its media is the default.
func TestReleases_newestOnMediaIsDefault(t *testing.T) {
	carried := []engine.ReleaseImage{{OpenshiftVersion: "4.19.9", CPUArchitecture: "x86_64"},
		{OpenshiftVersion: "4.19.10", CPUArchitecture: "x86_64"},
		{OpenshiftVersion: "4.18.1", CPUArchitecture: "arm64"}}
	for name, c := range map[string]struct {
		fixed    Fixed
		defaults []string
	}{
		"bare site":                       {Fixed{}, []string{"4.19.10", "4.18.1"}},
		"the configuration has a default": {fixedRelease, []string{"4.20.8", "4.18.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := testService(t, "http://192.0.2.1:8090", c.fixed)
			s.Site.options.Carried = &Carried{Releases: func() []engine.ReleaseImage { return slices.Clone(carried) }}
			var defaults []string
			for _, release := range s.Site.Releases() {
				if release.Default {
					defaults = append(defaults, release.OpenshiftVersion)
				}
			}
			require.Equal(t, c.defaults, defaults)
		})
	}
}

func TestChange_configuredURLNamesItsSources(t *testing.T) {
	s, _ := testService(t, "https://192.0.2.1", Fixed{URLs: []string{"https://192.0.2.1"}})
	address := "https://192.0.2.2"
	_, err := s.Change(t.Context(), Change{URL: &address})
	require.EqualError(t, err, "The configuration sets the URL: key url in its file, or the environment variable "+
		"LANDFALL_URL. Remove it there and restart the appliance to set it here.")
}

func TestRemoveRelease_ofAMediumNamesTheMedium(t *testing.T) {
	s, _ := testService(t, "https://192.0.2.10:8090", Fixed{})
	carried := []engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64"}}
	s.Site.options.Carried = &Carried{Releases: func() []engine.ReleaseImage { return carried }}
	err := s.RemoveRelease(t.Context(), "4.20.8", "x86_64")
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "landfall release forget")
	err = s.RemoveRelease(t.Context(), "4.20.9", "x86_64")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestChange_names(t *testing.T) {
	empty := ""
	require.Equal(t, "pull_secret, url", Change{URL: &empty, PullSecret: &empty}.names())
	require.Equal(t, "ntp_sources", Change{NTPSources: &[]string{}}.names())
}
