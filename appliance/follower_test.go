package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/people"
	"landfall/appliance/audittrail"
	"landfall/appliance/config"
	"landfall/appliance/fleet"
	"landfall/appliance/journal"
	"landfall/appliance/monitoring"
	"landfall/appliance/osimage"
	"landfall/appliance/process"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/sitekey"
	"landfall/appliance/storage"
	"landfall/isogen/skeleton"
	"landfall/store"
	"landfall/store/storetest"
	"landfall/store/wal/waltest"
	"landfall/web/console"
	"landfall/web/follower"
	"landfall/web/image/progress"
	"landfall/web/kube"
	"landfall/web/operation"
	"landfall/web/problem"
)

// copied is an appliance that leads a fleet, and a follower with a copy of its database.
type copied struct {
	*guarded
	log         *waltest.Log
	db          *store.DB // of the follower
	reader      *follower.Reader
	handler     http.Handler
	followerDir string
	led         atomic.Bool
	seen        atomic.Uint64
	silent      atomic.Bool  // the leader has answered nothing yet
	asked       atomic.Int64 // questions to the leader whether it admits a client
	forwarded   atomic.Int64 // requests that the leader got
	stub        bool         // the leader does nothing with them

	missing     chan int     // numbers of blobs of pushed images that the follower lacked
	missingISOs chan int     // numbers of live ISOs that it lacked
	apart       atomic.Bool  // it can't copy them
	pulls       http.Handler // of its registry
}

// Led implements follower.Leader.
func (c *copied) Led() bool { return c.led.Load() }

// Seen implements follower.Leader.
func (c *copied) Seen() (revision uint64, known bool) { return c.seen.Load(), !c.silent.Load() }

// Admits implements follower.Leader.
func (c *copied) Admits(r *http.Request) bool {
	c.asked.Add(1)
	if c.stub {
		return false
	}
	asked := r.Clone(r.Context())
	asked.Method = http.MethodHead
	w := httptest.NewRecorder()
	c.server.ServeHTTP(w, asked)
	return w.Code == http.StatusOK
}

func newCopied(t *testing.T, clock clockwork.Clock, changes ...func(*config.Config)) *copied {
	t.Helper()
	c := &copied{log: new(waltest.Log), missing: make(chan int, 100),
		missingISOs: make(chan int, 100)}
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	credential, err := fleet.NewCredential(key, "one")
	require.NoError(t, err)
	iso := filepath.Join(t.TempDir(), "live.iso")
	file, err := os.Create(iso)
	require.NoError(t, err)
	require.NoError(t, skeleton.Write(file, skeleton.ISO{}))
	require.NoError(t, file.Close())
	copies := fleet.NewCopies(fleet.CopiesOptions{Self: "one", Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Others: func(context.Context) ([]fleet.Peer, error) { return nil, nil }})
	leading := &fleet.Leading{Log: c.log, Credential: credential, Member: "one", Copies: copies,
		Front: &fleet.Front{Leads: c.Led}, Reads: func(context.Context) [][]byte {
			reads, err := c.reader.ImageReads()
			require.NoError(t, err)
			encoded, err := json.Marshal(reads)
			require.NoError(t, err)
			return [][]byte{encoded}
		}, Collectors: []prometheus.Collector{c.observe(t, true, clock)}}
	c.guarded = newGuardedAmong(t, clock, surroundings{fleet: leading}, func(settings *config.Config) {
		settings.URL = []string{"https://appliance.site.test:8090"}
		settings.OSImages = []config.OSImage{{OpenshiftVersion: "4.20", CPUArchitecture: "x86_64", Path: iso}}
		for _, change := range changes {
			change(settings)
		}
	})
	c.announce(t)
	c.openFollower(t, clock)
	c.led.Store(true)
	return c
}

// announce lets the leader write its URLs.
func (c *copied) announce(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	watcher := c.Appliance.db.Watch(ctx, c.Appliance.db.Revision(), fleet.LeaderKey())
	go func() { ended <- c.fleet.Watch(ctx, c.Appliance.db, c.networks) }()
	<-watcher.C()
	stop()
	require.NoError(t, <-ended)
}

func (c *copied) openFollower(t *testing.T, clock clockwork.Clock) {
	t.Helper()
	settings := c.config
	settings.DataDir = t.TempDir()
	c.followerDir = settings.DataDir
	storetest.CopyRows(t, c.Appliance.db, settings.DataDir)
	var err error
	c.db, err = store.Open(t.Context(), settings.DataDir, store.Options{Follow: true, Versioned: kube.Bucket,
		History: journal.History(int64(settings.Limits.JournalObjectBytes), int64(settings.Limits.JournalBytes)),
		Keys:    c.keys.Open})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.db.Close()) })
	ctx, stop := context.WithCancel(t.Context())
	reader, err := follower.Open(ctx, follower.Options{Config: settings, DB: c.db, Key: c.siteKey, Leader: c,
		Contacts: func(_ context.Context, after time.Time) (string, map[string]time.Time, error) {
			return "one", c.engine.Contacts(after), nil
		},
		LiveISOs: &osimage.Shared{DB: c.db, Follows: true,
			Fetch: func(_ context.Context, id string, _ int64) (io.ReadCloser, error) {
				return osimage.OpenFile(filepath.Join(c.config.DataDir, "os-images"), id)
			}},
		MissingLiveISOs: func(n int) { c.missingISOs <- n },
		PushedImages: &overlay.Shared{Missing: func(n int) { c.missing <- n },
			Fetch: func(_ context.Context, sum string, _ int64) (io.ReadCloser, error) {
				if c.apart.Load() {
					return nil, fs.ErrNotExist
				}
				return overlay.OpenBlob(c.config.RegistryDir(), sum)
			}},
		Observed: monitoring.Parts{Version: "of the follower", Usage: storage.NewUsage(settings.DataDir, clock),
			Certificates: c.transport.Certificates(), Clock: clock,
			Others: append(process.MetricCollectors(), c.observe(t, false, clock))},
		Fleet: c.membership, Trail: c.trailOf(settings.DataDir, clock),
		Version: "test", Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
			_ = problem.Write(w, r, problem.From(err)) // the recorder accepts it
		}})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- reader.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, reader.Close())
	})
	c.reader, c.handler = reader, reader.Handler(fleet.Main, c.forward(c.server))
	c.pulls = reader.Handler(fleet.Registry, c.forward(c.at(fleet.Registry)))
}

// trailOf returns the audit trail of the follower.
func (c *copied) trailOf(dir string, clock clockwork.Clock) audittrail.Reader {
	return audittrail.Reader{Dir: filepath.Join(dir, audittrail.DirName), Key: c.siteKey, Clock: clock, DB: c.db,
		Member: fleet.TrailName("two", "2")}
}

// forward returns the handler of requests that the follower forwards to a handler of the leader.
func (c *copied) forward(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.Led() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		c.forwarded.Add(1)
		if c.stub {
			return
		}
		to.ServeHTTP(w, r)
		c.seen.Store(max(c.seen.Load(), fleet.RevisionOf(w.Header())))
	})
}

// catchUp lets the follower apply what it lacks.
func (c *copied) catchUp(t *testing.T) {
	t.Helper()
	if records := c.log.After(c.db.Sequence()); len(records) > 0 {
		require.NoError(t, c.db.Apply(t.Context(), records))
	}
	c.seen.Store(c.db.Revision()) // so that the next request waits for what memory contains
}

// ask sends a request to the follower.
func (c *copied) ask(t *testing.T, method, path, body, as string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "https://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if caller := c.callers[as]; caller.header != "" {
		r.Header.Set(caller.header, caller.token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	serve(c.handler, w, r)
	return w
}

// askHere sends a request that the follower must answer itself.
func (c *copied) askHere(t *testing.T, path, as string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	before := c.forwarded.Load()
	w := c.ask(t, http.MethodGet, path, "", as, header...)
	require.Equal(t, before, c.forwarded.Load(), "%s was forwarded", path)
	return w
}

// use lets the leader learn of a use of a credential, so that the copy answers the next requests
// once it has what the leader has written until then.
func (c *copied) use(t *testing.T, as string) {
	t.Helper()
	c.ask(t, http.MethodGet, "/api/assisted-install/v2/domains", "", as)
}

const clustersPath = "/api/assisted-install/v2/clusters"

// queries are the parameters that operations need.
var queries = map[string]string{
	"GetSupportedFeatures":         "?openshift_version=4.20",
	"GetDetailedSupportedFeatures": "?openshift_version=4.20",
	"GetSupportedArchitectures":    "?openshift_version=4.20",
	"explainMirror":                "?image=quay.io/a/b@sha256:" + strings.Repeat("a", 64),
	"downloadImage":                "?version=4.20&arch=x86_64&type=full-iso",
	"downloadImageInitrd":          "?version=4.20&arch=x86_64",
	"downloadArtifact-kernel":      "?version=4.20&arch=x86_64",
	"downloadArtifact-rootfs":      "?version=4.20&arch=x86_64",
}

// copyOperations are the operations that a follower answers from its copy, by their IDs.
func (c *copied) copyOperations() map[string]operation.Operation {
	all := map[string]operation.Operation{}
	for route, o := range c.server.Routes() {
		if o.FromCopy && route.Method == http.MethodGet {
			all[o.ID] = o
		}
	}
	return all
}

func TestFollower_answersLikeTheLeader(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.newHost(t, c.env)
	c.use(t, "admin")
	c.catchUp(t)
	answered := 0
	all := c.copyOperations()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if id == "followChanges" {
			continue // never ends; see TestFollower_feedGoesOn
		}
		path := c.fill(all[id].Path) + queries[id]
		path = strings.Replace(path, "/*", "/", 1)
		want := c.request(t, http.MethodGet, path, "", c.callers["admin"])
		if want.Code != http.StatusOK && want.Code != http.StatusNoContent {
			continue
		}
		got := c.askHere(t, path, "admin")
		require.Equal(t, want.Code, got.Code, id)
		require.Equal(t, want.Body.Bytes(), got.Body.Bytes(), id)
		require.Equal(t, want.Header().Get("ETag"), got.Header().Get("ETag"), id)
		require.Equal(t, strconv.FormatUint(c.db.Revision(), 10), got.Header().Get("Landfall-Revision"), id)
		answered++
	}
	require.Greater(t, answered, 30, "most operations have an answer for these objects")
}

func TestFollower_opensLiveISOsThatCome(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	require.Zero(t, <-c.missingISOs)
	const kernel = "/boot-artifacts/kernel?version=4.19&arch=x86_64"
	var iso bytes.Buffer
	require.NoError(t, skeleton.Write(&iso, skeleton.ISO{VolumeID: "rhcos-419.94.202512010000-0"}))
	up, err := c.Appliance.images.StartUpload(osimage.UploadRequest{Name: "live.iso", SizeBytes: int64(iso.Len())})
	require.NoError(t, err)
	done, err := c.Appliance.images.Append(t.Context(), up.ID, 0, 0, &iso)
	require.NoError(t, err)
	want := c.request(t, http.MethodGet, kernel, "", c.callers["nobody"])
	require.Equal(t, http.StatusOK, want.Code, want.Body.String())
	c.catchUp(t)
	require.Equal(t, []int{1, 0}, []int{<-c.missingISOs, <-c.missingISOs})
	got := c.askHere(t, kernel, "nobody")
	require.Equal(t, http.StatusOK, got.Code, got.Body.String())
	require.Equal(t, want.Body.Bytes(), got.Body.Bytes())

	require.NoError(t, c.Appliance.images.Remove(done.Image.ID))
	c.catchUp(t)
	require.Zero(t, <-c.missingISOs)
	before := c.forwarded.Load()
	require.Equal(t, http.StatusServiceUnavailable, c.ask(t, http.MethodGet, kernel, "", "nobody").Code)
	require.Greater(t, c.forwarded.Load(), before, "a refusal counts only if the leader refuses, too")
}

func TestFollower_showsLastContacts(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Now().UTC())
	c := newCopied(t, clock)
	host := c.newHost(t, c.env)
	c.use(t, "admin")
	c.catchUp(t)
	hosts := "/api/assisted-install/v2/infra-envs/" + c.env + "/hosts/"
	for range 3 {
		clock.Advance(10 * time.Second)
		require.Equal(t, http.StatusOK, c.status(t, http.MethodGet, hosts+host+"/instructions", c.callers["agent"]))
		want := c.request(t, http.MethodGet, hosts+host, "", c.callers["admin"]).Body.String()
		require.Contains(t, want, clock.Now().Format(`"checked_in_at":"2006-01-02T15:04:05`))
		require.Equal(t, want, c.askHere(t, hosts+host, "admin").Body.String())
	}
}

// untilHost ends a live feed after a change of a host.
type untilHost struct {
	*httptest.ResponseRecorder
	stop context.CancelFunc
}

// Flush implements http.Flusher.
func (w untilHost) Flush() {
	w.ResponseRecorder.Flush()
	if strings.Contains(w.Body.String(), `"kind":"hosts"`) {
		w.stop()
	}
}

// TestFollower_feedGoesOn continues the live feed of the leader at a follower.
func TestFollower_feedGoesOn(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	last := strconv.FormatUint(c.db.Revision(), 10)
	c.newObjects(t, "new")
	c.catchUp(t)
	feed := func(handler http.Handler) string {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1"+console.FeedRoute, http.NoBody)
		r.Header.Set("Last-Event-ID", last)
		r.Header.Set("Authorization", c.callers["viewer"].token)
		w := untilHost{ResponseRecorder: httptest.NewRecorder(), stop: stop}
		serve(handler, w, r)
		return w.Body.String()
	}
	want := feed(c.server)
	require.Greater(t, strings.Count(want, "event: change"), 3)
	require.Equal(t, want, feed(c.handler))
	require.Zero(t, c.forwarded.Load())
}

// TestFollower_forwardsOtherRoutes asks for every route of the leader that a copy must not answer.
func TestFollower_forwardsOtherRoutes(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.stub = true
	paths := []string{"/api/assisted-install/v2/unknown", "/api/unknown", "//livez", "/api/landfall/v1//settings/"}
	for route, o := range c.server.Routes() {
		if route.Method == http.MethodGet && !o.FromCopy && o.ID != "getMetrics" {
			paths = append(paths, strings.ReplaceAll(c.fill(route.Path), "*", "any"))
		}
	}
	require.Greater(t, len(paths), 150)
	for _, path := range paths {
		before := c.forwarded.Load()
		c.ask(t, http.MethodGet, path, "", "nobody")
		require.Equal(t, before+1, c.forwarded.Load(), path)
	}
}

// fromCopy are the operations that a follower answers from its copy, and onlyLeader are the other
// ones that only read, by their IDs or the beginnings of their paths. A new operation must be in
// one of them.
var (
	fromCopy = []string{
		// the page and images
		"/*", "/byid/", "/byapikey/", "/bytoken/", "/images/", "/boot-artifacts/", "/config/", "/grub/", "/i/",
		"/ipxe/",
		"getHealth", "getLive",
		// rows of the REST API, and what the program alone knows
		"DownloadMinimalInitrd", "GetClusterSupportedPlatforms", "GetDetailedSupportedFeatures", "GetInfraEnv",
		"GetInfraEnvDownloadURL", "GetSupportedFeatures", "ListClusterHosts", "ListInfraEnvs", "V2GetBundle",
		"V2GetClusterUISettings", "V2ListBundles", "V2ListManagedDomains", "V2ListOfClusterOperators",
		"V2ListOperatorProperties", "V2ListSupportedOperators", "v2GetCluster", "v2GetHost",
		"v2GetIgnoredValidations",
		"v2GetOpenAPI", "v2GetPreflightRequirements", "v2ListClusters", "v2ListEvents", "v2ListHosts",
		"v2ListReleaseSources",
		"GetSupportedArchitectures", "V2GetClusterDefaultConfig", "V2ListClusterManifests",
		"v2ListSupportedOpenshiftVersions",
		// rows of the console's API
		"explainMirror", "getMirror", "listNotifications", "listWebhooks",
		"followChanges", "getFleet", "getInstallationProgress", "listAllClusters", "listAllHosts", "whoami",
	}
	onlyLeader = []string{
		// APIs of other products, and the state of the leader itself
		"/api/accounts_mgmt/", "/api/aro_hcp/", "/api/clusters_mgmt/", "/api/maestro/", "/subscriptions/",
		"/providers/",
		"/api/landfall/v1/hosted", "/livez", "/readyz", "/ca.crt",
		// what depends on the media and the network of the leader
		"V2DownloadClusterLogs",
		"v2ListComponentVersions", "getClusterOperatorImageSet",
		"getClusterRegistry",
		"getMirrorLater", "listMirrorProofs", "getMirrorProof",
		"downloadMirrorProofList",
		"listClusterOperatorAvailability", "listOperatorAvailability", "listOSImages", "getOSImageUpload",
		"getRegistry",
		"getHandOver", "listReleases", "getSettings", "getSetup", "getSiteAddresses",
		"getSiteServices",
		// what only the leader's memory and disk have
		"v2GetNextSteps", "/api/landfall/v1/ams", "/api/landfall/v1/audit", "/api/landfall/v1/backup",
		"/api/landfall/v1/bmcs", "/api/landfall/v1/replica", "checkStoredData", "diagnoseSite", "downloadJournal",
		"downloadSupportArchive", "explainMissingHosts", "getAgentTokens", "getFleetInvitation",
		"getImage", "getKubernetes",
		"getOverview", "getRehearsal", "getSealedImage", "getStatus", "listImageReads",
		"listTokenlessHosts",
		// accounts and logins
		"beginOIDCLogin", "finishOIDCLogin", "getLoginMethods", "getUser", "listPasskeys", "listSessions",
		"listTokens",
		"listUsers",
	}
)

func TestFollower_eachOperationHasAClass(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	is := func(o operation.Operation, class []string) bool {
		return slices.ContainsFunc(class, func(one string) bool {
			return o.ID == one || o.Path == one || len(one) > 2 && strings.HasPrefix(one, "/") &&
				strings.HasPrefix(o.Path, one)
		})
	}
	for _, o := range c.server.Routes() {
		switch {
		case o.ID == "": // no operation
			require.False(t, o.FromCopy, o.Path)
		case o.ID == "getMetrics": // about the member that answers; see TestFollowerMetrics_areItsOwn
			require.False(t, o.FromCopy)
		case o.FromCopy:
			require.True(t, is(o, fromCopy) && !is(o, onlyLeader), "%s: add it to fromCopy", o.ID)
			require.Equal(t, http.MethodGet, o.Method, "%s changes something", o.ID)
			require.False(t, o.Access.Secret, "%s is recorded in the audit trail of the leader", o.ID)
		case o.Method == http.MethodGet && !o.Access.Secret:
			require.True(t, is(o, onlyLeader) && !is(o, fromCopy), "%s: mark it with FromCopy, or add it to onlyLeader",
				o.ID)
		}
	}
}

func TestFollower_readsItsOwnWrites(t *testing.T) {
	c := newCopied(t, clockwork.NewRealClock())
	c.use(t, "admin")
	w := c.ask(t, http.MethodPost, clustersPath, `{"name": "new", "openshift_version": "4.20.0",
		"base_dns_domain": "example.com", "pull_secret": `+strconv.Quote(testPullSecret)+`}`, "admin")
	require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
	before := c.forwarded.Load()
	w = c.ask(t, http.MethodGet, clustersPath, "", "admin")
	require.Contains(t, w.Body.String(), `"name":"new"`)
	require.Equal(t, before+1, c.forwarded.Load(), "the copy lacks the change, so the leader answers")
	c.led.Store(false)
	w = c.ask(t, http.MethodGet, clustersPath, "", "admin")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), "this member lacks changes that you may have seen")
	c.catchUp(t)
	for w.Code == http.StatusServiceUnavailable {
		w = c.ask(t, http.MethodGet, clustersPath, "", "admin")
	}
	require.Contains(t, w.Body.String(), `"name":"new"`)
	require.Equal(t, before+1, c.forwarded.Load())
}

func TestFollower_waitsForTheRevisionOfTheClient(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.use(t, "admin")
	c.seen.Store(0)
	c.post(t, clustersPath, map[string]any{"name": "new", "openshift_version": "4.20.0",
		"base_dns_domain": "example.com", "pull_secret": testPullSecret}, new(any))
	revision := strconv.FormatUint(c.Appliance.db.Revision(), 10)
	require.NotContains(t, c.askHere(t, clustersPath, "admin").Body.String(), `"name":"new"`,
		"a client that has not seen the change gets the copy")
	answer := make(chan string, 1)
	go func() {
		answer <- c.ask(t, http.MethodGet, clustersPath, "", "admin", "Landfall-Revision", revision).Body.String()
	}()
	require.NoError(t, c.db.Apply(t.Context(), c.log.After(c.db.Sequence())))
	require.Contains(t, <-answer, `"name":"new"`)
}

func TestFollower_asksANewLeaderFirst(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.use(t, "admin")
	c.catchUp(t)
	c.silent.Store(true)
	before := c.forwarded.Load()
	require.Equal(t, http.StatusOK, c.ask(t, http.MethodGet, clustersPath, "", "admin").Code)
	require.Equal(t, before+1, c.forwarded.Load(), "it may know of a change whose answer was lost")
	c.led.Store(false)
	c.askHere(t, clustersPath, "admin")
}

func TestFollower_withoutALeader(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.led.Store(false)
	for _, path := range []string{clustersPath, clustersPath + "/" + c.cluster,
		"/byid/" + c.env + "/4.20/x86_64/full.iso", "/boot-artifacts/kernel?version=4.20&arch=x86_64"} {
		require.Equal(t, http.StatusOK, c.askHere(t, path, "admin").Code, path)
	}
	page := c.request(t, http.MethodGet, "/clusters/any", "", caller{}) // absent if it was not built
	require.Equal(t, page.Code, c.askHere(t, "/clusters/any", "nobody").Code)
	require.Equal(t, http.StatusUnauthorized, c.askHere(t, clustersPath, "nobody").Code)
	require.Equal(t, http.StatusServiceUnavailable, c.ask(t, http.MethodPost, clustersPath, "{}", "admin").Code)
	require.Equal(t, http.StatusServiceUnavailable,
		c.ask(t, http.MethodGet, console.BasePath+"/settings", "", "admin").Code)
}

// The settings, and the mirror rules that were imported, are in memory: a follower reads them again
// after each change of their rows.
func TestFollower_settingsAndMirrorRules(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.use(t, "admin")
	const mirror = console.MirrorRoute
	of := mirror + "?cluster_id=" + c.cluster
	const image = "&image=quay.io/acme/app@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	change := func(method, path, body string) {
		t.Helper()
		w := c.request(t, method, path, body, c.callers["admin"])
		require.Less(t, w.Code, 300, w.Body.String())
		c.catchUp(t)
	}
	same := func(want string, paths ...string) {
		t.Helper()
		for _, path := range paths {
			body := c.askHere(t, path, "admin").Body.String()
			require.Contains(t, body, want, path)
			require.Equal(t, c.request(t, http.MethodGet, path, "", c.callers["admin"]).Body.String(), body, path)
		}
	}
	c.catchUp(t)
	const defaults = "/api/assisted-install/v2/clusters/default-config"
	require.NotContains(t, c.askHere(t, defaults, "admin").Body.String(), "ntp.example.com")
	change(http.MethodPatch, console.SettingsRoute, `{"ntp_sources": ["ntp.example.com"]}`)
	same("ntp.example.com", defaults)

	rules := `apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: acme}
spec:
  imageDigestMirrors:
  - {source: quay.io/acme, mirrors: [%s]}
`
	change(http.MethodPost, mirror+"?name=site", fmt.Sprintf(rules, "site.example.com/acme"))
	same("site.example.com/acme", mirror, of, mirror+"/explain?cluster_id="+c.cluster+image)
	change(http.MethodPost, of+"&name=own", fmt.Sprintf(rules, "own.example.com/acme"))
	same("own.example.com/acme", of, mirror+"/explain?cluster_id="+c.cluster+image)
	change(http.MethodDelete, mirror+"/imports/own?cluster_id="+c.cluster, "")
	change(http.MethodDelete, mirror+"/imports/site", "")
	require.NotContains(t, c.askHere(t, of, "admin").Body.String(), "example.com/acme")
	same(`"rules":[]`, mirror, of)

	before := c.forwarded.Load()
	c.ask(t, http.MethodGet, clustersPath+"/"+c.cluster+"/manifests?include_system_generated=true", "", "admin")
	require.Equal(t, before+1, c.forwarded.Load(), "these depend on the mirror rules")
}

// A follower with damaged settings asks the leader.
func TestFollower_damagedSettings(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.use(t, "admin")
	damaged := json.RawMessage("[]") // no object
	require.NoError(t, c.Appliance.db.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[json.RawMessage]("settings", 1).Put(tx, "site", &damaged)
	}))
	c.catchUp(t)
	before := c.forwarded.Load()
	w := c.ask(t, http.MethodGet, "/api/assisted-install/v2/clusters/default-config", "", "admin")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, before+1, c.forwarded.Load())
}

// A follower with a damaged import of mirror rules asks the leader.
func TestFollower_damagedMirrorRules(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.use(t, "admin")
	c.catchUp(t)
	c.askHere(t, console.MirrorRoute, "admin")
	damaged := json.RawMessage("[]") // no object
	require.NoError(t, c.Appliance.db.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[json.RawMessage]("mirror-imports", 1).Put(tx, "site", &damaged)
	}))
	c.catchUp(t)
	before := c.forwarded.Load()
	require.Equal(t, http.StatusOK, c.ask(t, http.MethodGet, console.MirrorRoute, "", "admin").Code)
	require.Equal(t, before+1, c.forwarded.Load())
}

// A newer program leads. It writes settings that the program of the follower can't read.
func TestFollower_settingsThatCantBeRead(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Now().UTC())
	c := newCopied(t, clock)
	const defaults = "/api/assisted-install/v2/clusters/default-config"
	change := func(fn func(tx *store.Tx) error) {
		t.Helper()
		require.NoError(t, c.Appliance.db.Update(t.Context(), fn))
		c.use(t, "admin")
		c.catchUp(t)
	}
	put := func(version int, settings string) {
		t.Helper()
		row := json.RawMessage(settings)
		change(func(tx *store.Tx) error {
			return store.NewBucket[json.RawMessage]("settings", version).Put(tx, "site", &row)
		})
	}
	forwarded := func() {
		t.Helper()
		before := c.forwarded.Load()
		c.ask(t, http.MethodGet, defaults, "", "admin")
		require.Equal(t, before+1, c.forwarded.Load())
	}
	put(2, `{}`)
	forwarded()
	c.openFollower(t, clock) // it starts with such settings
	forwarded()
	change(func(tx *store.Tx) error { return store.NewBucket[json.RawMessage]("settings", 2).Delete(tx, "site") })
	put(1, `{"ntp_sources": ["ntp.example.com"]}`)
	require.Eventually(t, func() bool { // until then it does not wait for the change
		before := c.forwarded.Load()
		c.ask(t, http.MethodGet, defaults, "", "admin")
		return c.forwarded.Load() == before
	}, time.Minute, time.Millisecond, "it answers again")
	require.Contains(t, c.askHere(t, defaults, "admin").Body.String(), "ntp.example.com")
}

// The page and the commands go on at a follower without a leader: they learn who asks, and see the
// audit trail of the follower.
func TestFollower_auditTrailWithoutALeader(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Now().UTC())
	c := newCopied(t, clock)
	led, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	trail, err := audittrail.Open(audittrail.Options{Dir: filepath.Join(c.followerDir, audittrail.DirName), DB: led,
		Key: c.siteKey})
	require.NoError(t, err)
	require.NoError(t, trail.Record(t.Context(), audittrail.Entry{Operation: "of the follower"}))
	head := trail.Head().Sequence
	require.NoError(t, errors.Join(trail.Close(), led.Close()))
	c.use(t, "admin")
	c.catchUp(t)
	const path = console.AuditRoute
	before := c.forwarded.Load()
	w := c.ask(t, http.MethodGet, path, "", "admin")
	require.Equal(t, http.StatusOK, w.Code)
	require.NotContains(t, w.Body.String(), "of the follower", "the leader answers")
	require.Equal(t, before+1, c.forwarded.Load())

	c.led.Store(false)
	require.Contains(t, c.askHere(t, path, "admin").Body.String(), "of the follower")
	require.Equal(t, http.StatusForbidden, c.askHere(t, path, "viewer").Code)
	require.Equal(t, http.StatusUnauthorized, c.askHere(t, path, "nobody").Code)
	w = c.askHere(t, path+"/export", "admin")
	require.Contains(t, w.Body.String(), "of the follower")
	require.Contains(t, w.Header().Get("Content-Disposition"), fmt.Sprintf("audit-%d.jsonl", head+1))
	var report audittrail.Report
	require.NoError(t, json.Unmarshal(c.askHere(t, path+"/verify", "admin").Body.Bytes(), &report))
	require.Empty(t, report.Problems)
	require.Contains(t, c.askHere(t, console.BasePath+"/whoami", "admin").Body.String(), `"role":"admin"`)
	require.JSONEq(t, `{"auth": "local", "setup": false}`,
		c.askHere(t, console.BasePath+"/login", "nobody").Body.String())
}

func TestFollower_forwardsRefusals(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	for _, as := range []string{"nobody", "agent", "limited to others"} {
		before := c.forwarded.Load()
		got := c.ask(t, http.MethodGet, clustersPath+"/"+c.cluster, "", as)
		want := c.request(t, http.MethodGet, clustersPath+"/"+c.cluster, "", c.callers[as])
		require.Equal(t, want.Code, got.Code, as)
		require.Len(t, got.Header().Values("X-Request-Id"), 1, as)
		require.Equal(t, before+1, c.forwarded.Load(), as)
	}
}

func TestFollower_newAndRevokedTokens(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.addToken(t, "new", access.Viewer, access.Scope{})
	c.use(t, "new")
	c.seen.Store(0) // the copy does not wait for the token
	require.Equal(t, http.StatusOK, c.ask(t, http.MethodGet, clustersPath, "", "new").Code,
		"the leader knows the token")
	c.catchUp(t)
	require.Equal(t, http.StatusOK, c.askHere(t, clustersPath, "new").Code)
	require.NoError(t, c.clients.tokens.Revoke(t.Context(), "new"))
	c.catchUp(t)
	require.Equal(t, http.StatusUnauthorized, c.ask(t, http.MethodGet, clustersPath, "", "new").Code)
	c.led.Store(false)
	require.Equal(t, http.StatusUnauthorized, c.askHere(t, clustersPath, "new").Code)
}

func TestFollower_newAndEndedSessions(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	code, err := c.clients.people.SetupCode()
	require.NoError(t, err)
	account, err := c.clients.people.SetUp(t.Context(), code, "person", "a long password")
	require.NoError(t, err)
	secret, session, err := c.clients.people.StartSession(t.Context(), account, people.Client{})
	require.NoError(t, err)
	c.callers["person"] = caller{header: "Cookie", token: "__Host-landfall=" + secret}
	c.use(t, "person")
	c.catchUp(t)
	require.Equal(t, http.StatusOK, c.askHere(t, clustersPath, "person").Code)
	require.NoError(t, c.clients.people.EndSession(t.Context(), session.ID))
	c.catchUp(t)
	c.led.Store(false)
	require.Equal(t, http.StatusUnauthorized, c.askHere(t, clustersPath, "person").Code)
}

func TestFollower_leaderLearnsOfUses(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Now().UTC())
	c := newCopied(t, clock)
	ask := func() int64 {
		c.catchUp(t)
		require.Equal(t, http.StatusOK, c.ask(t, http.MethodGet, clustersPath, "", "viewer").Code)
		return c.forwarded.Load()
	}
	require.Equal(t, int64(1), ask())
	require.Equal(t, int64(1), ask())
	clock.Advance(time.Minute)
	require.Equal(t, int64(2), ask())
	require.Equal(t, int64(2), ask())
}

// TestFollower_leaderLearnsOfImageReads reads an image at a follower, and asks the leader for the
// machines that read it and for the reasons why hosts are missing.
func TestFollower_leaderLearnsOfImageReads(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Now().UTC())
	c := newCopied(t, clock)
	c.use(t, "admin")
	c.catchUp(t)
	reads := func() (all []progress.Report) {
		var answer struct{ Reads []progress.Report }
		path := console.BasePath + "/infra-envs/" + c.env + "/reads"
		got := c.request(t, http.MethodGet, path, "", c.callers["viewer"])
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &answer))
		return answer.Reads
	}
	require.Empty(t, reads())
	path := "/byid/" + c.env + "/4.20/x86_64/full.iso"
	require.Equal(t, http.StatusPartialContent, c.askHere(t, path, "admin", "Range", "bytes=0-65535").Code)
	clock.Advance(time.Minute)
	all := reads()
	require.Len(t, all, 1)
	require.Equal(t, int64(64<<10), all[0].Bytes)
	require.Equal(t, progress.Stopped, all[0].State)
	missing := c.request(t, http.MethodGet, console.BasePath+"/missing-hosts", "", c.callers["viewer"])
	require.Contains(t, missing.Body.String(), all[0].Sentence)
}

func TestFollower_downloadContinues(t *testing.T) {
	c := newCopied(t, clockwork.NewFakeClockAt(time.Now().UTC()))
	c.use(t, "admin")
	c.catchUp(t)
	path := "/byid/" + c.env + "/4.20/x86_64/full.iso"
	whole := c.request(t, http.MethodGet, path, "", c.callers["admin"])
	require.Equal(t, http.StatusOK, whole.Code)
	rest := c.askHere(t, path, "admin", "Range", "bytes=1000-", "If-Range", whole.Header().Get("ETag"))
	require.Equal(t, http.StatusPartialContent, rest.Code)
	require.Equal(t, whole.Body.Bytes()[1000:], rest.Body.Bytes())
}
