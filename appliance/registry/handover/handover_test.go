package handover_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/handover"
	"landfall/store"
)

func TestHandOver_addsMirrorAndRemovesFirst(t *testing.T) {
	s := newSite(t)
	s.start()
	s.setMirrors()
	to := s.to.host()
	first, second := ownName+"/openshift/release-images", to+"/openshift/release-images"
	s.begin(handover.Request{Way: handover.AddMirror, To: to, CA: string(s.spokes.CA()), NodeSecret: writeSecret(to)})
	s.until("the machine config operator is awaited", func(now *handover.Status) bool {
		return len(now.Clusters) == 1 && now.Clusters[0].State == handover.RollingIn &&
			strings.Contains(now.Clusters[0].Message, "not rendered the change yet for: master, worker")
	})
	s.requireComplete()
	require.Equal(t, []string{first, second}, s.mirrors())
	require.Equal(t, string(s.spokes.CA()), s.cluster.Object("api/v1/configmaps", "openshift-config",
		"landfall-registry-cas").Object["data"].(map[string]any)[strings.Replace(to, ":", "..", 1)])
	secret, err := base64.StdEncoding.DecodeString(s.cluster.Object("api/v1/secrets", "openshift-config",
		"pull-secret").Object["data"].(map[string]any)[".dockerconfigjson"].(string))
	require.NoError(t, err)
	require.JSONEq(t, writeSecret(to), string(secret))

	s.setPool("worker", "rendered-worker-2", "rendered-worker-1", 2, 1)
	s.setPool("master", "rendered-master-2", "rendered-master-2", 3, 3)
	now := s.until("a node of the pool is missing", func(now *handover.Status) bool {
		return now.Clusters[0].Message == "The nodes take over the change, one after the other."
	})
	require.Equal(t, []handover.Pool{{Name: "master", Machines: 3, Updated: 3}, {Name: "worker", Machines: 2,
		Updated: 1}}, sorted(now.Clusters[0].Pools))
	_, err = s.service.Confirm(t.Context(), nil)
	require.ErrorContains(t, err, "No cluster has both mirrors yet")
	s.setPool("worker", "rendered-worker-2", "rendered-worker-2", 2, 2)
	s.await(handover.Asking)
	require.Equal(t, []string{first, second}, s.mirrors(), "the first is removed only after a person's word")

	_, err = s.service.Confirm(t.Context(), []string{clusterName})
	require.NoError(t, err)
	s.until("the first mirror is removed", func(now *handover.Status) bool {
		return now.Clusters[0].State == handover.RollingOut
	})
	require.Equal(t, []string{second}, s.mirrors())
	require.Equal(t, to+"/redhat/redhat-operator-index:v4.20", s.cluster.Object(
		"apis/operators.coreos.com/v1alpha1/catalogsources", "openshift-marketplace",
		"cs-redhat").Object["spec"].(map[string]any)["image"])
	require.Nil(t, s.own.handedOver())
	s.setPool("worker", "rendered-worker-3", "rendered-worker-3", 2, 2)
	s.setPool("master", "rendered-master-3", "rendered-master-3", 3, 3)
	s.await(handover.Done)
	require.Equal(t, to, s.own.handedOver().Host, "new clusters use the site's registry")
	dependents, err := s.dependents()
	require.NoError(t, err)
	require.Empty(t, dependents)
	s.stop()
	s.start()
	require.Equal(t, to, s.own.handedOver().Host, "also after a restart")
	_, err = s.service.Cancel(t.Context())
	require.NoError(t, err)
	require.Nil(t, s.own.handedOver())
}

func sorted(pools []handover.Pool) []handover.Pool {
	slices.SortFunc(pools, func(a, b handover.Pool) int { return strings.Compare(a.Name, b.Name) })
	return pools
}

func TestHandOver_movesTheName(t *testing.T) {
	s := newSite(t)
	ca := s.to.withTLS(t, ownHost)
	_, port, err := net.SplitHostPort(s.to.host())
	require.NoError(t, err)
	s.name = net.JoinHostPort(ownHost, port)
	addresses := []string{"192.0.2.7"} // the laptop
	var mu sync.Mutex
	s.lookup = func(host string) ([]string, error) {
		require.Equal(t, ownHost, host)
		mu.Lock()
		defer mu.Unlock()
		return addresses, nil
	}
	s.resolve = func(name string) string {
		mu.Lock()
		defer mu.Unlock()
		if name == s.name && addresses[0] == "127.0.0.1" {
			return s.to.host()
		}
		return ""
	}
	s.start()
	s.setMirrors()
	before := s.cluster.Object("apis/config.openshift.io/v1/imagedigestmirrorsets", "", "image-digest-mirror")
	s.begin(handover.Request{Way: handover.MoveName, To: s.to.host(), CA: ca})
	now := s.until("the record is shown", func(now *handover.Status) bool { return now.Record != nil })
	s.requireComplete()
	require.Equal(t, handover.Naming, now.State)
	require.Equal(t, "mirror.site.test. 300 IN A 127.0.0.1", now.Record.Text)
	require.Contains(t, now.Message, "it leads to 192.0.2.7 now")
	require.Len(t, now.Proofs, 1)
	require.True(t, now.Proofs[0].Complete)
	require.Nil(t, s.own.handedOver())
	mu.Lock()
	addresses = []string{"127.0.0.1"}
	mu.Unlock()
	s.await(handover.Done)
	require.Equal(t, s.name, s.own.handedOver().Host)
	require.Equal(t, before, s.cluster.Object("apis/config.openshift.io/v1/imagedigestmirrorsets", "",
		"image-digest-mirror"), "nothing changes in the cluster")
	dependents, err := s.dependents()
	require.NoError(t, err)
	require.Empty(t, dependents)
}

// A certificate that is not for the name would make all pulls fail after the name has moved.
func TestHandOver_certificateForAnotherName(t *testing.T) {
	s := newSite(t)
	ca := s.to.withTLS(t, "registry.site.test")
	_, port, err := net.SplitHostPort(s.to.host())
	require.NoError(t, err)
	s.name = net.JoinHostPort(ownHost, port)
	s.start()
	s.begin(handover.Request{Way: handover.MoveName, To: s.to.host(), CA: ca})
	require.Contains(t, s.await(handover.Refused).Message, "registry.site.test")
}

// The appliance goes on when the store fails, such as on a full disk.
func TestHandOver_storeFails(t *testing.T) {
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	clock := clockwork.NewFakeClock()
	service := handover.New(handover.Options{DB: db, Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { defer cancel(); ended <- service.Run(ctx) }()
	_ = clock.BlockUntilContext(ctx, 1) // ends early if Run does
	cancel()
	require.NoError(t, <-ended)
}

func TestHandOver_badRequests(t *testing.T) {
	s := newSite(t)
	s.start()
	for name, c := range map[string]struct {
		wanted handover.Request
		says   string
	}{
		"no way":           {handover.Request{To: "a.test"}, "Select how the clusters come to use"},
		"a URL":            {handover.Request{Way: handover.AddMirror, To: "https://a.test"}, "Use host or host:port"},
		"itself":           {handover.Request{Way: handover.AddMirror, To: ownName}, "is the appliance's own registry"},
		"another port":     {handover.Request{Way: handover.MoveName, To: "a.test:5001"}, "must listen at this port"},
		"a name to a path": {handover.Request{Way: handover.MoveName, To: "a.test:5000/b"}, "can't have a path"},
		"a bad CA":         {handover.Request{Way: handover.AddMirror, To: "a.test", CA: "x"}, "the CA"},
		"no entry": {handover.Request{Way: handover.AddMirror, To: "a.test", PullSecret: writeSecret("b.test")},
			"The pull secret has no entry for a.test."},
		"bad nodes' secret": {handover.Request{Way: handover.AddMirror, To: "a.test", NodeSecret: "{"},
			"The pull secret of the nodes can't be used"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.service.Start(t.Context(), c.wanted)
			require.ErrorContains(t, err, c.says)
			_, err = s.service.Status()
			require.ErrorContains(t, err, "There is no hand-over")
		})
	}
	s.name = "192.0.2.7:5000"
	s.own.name = s.name
	_, err := s.service.Start(t.Context(), handover.Request{Way: handover.MoveName, To: "a.test:5000"})
	require.ErrorContains(t, err, "an address is no name that can move")
}

// Case 52: a hand-over that broke off resumes at the blob. Rules change only after the proof.
func TestFault52_brokenOff(t *testing.T) {
	s := newSite(t)
	s.start()
	s.setMirrors()
	before := s.mirrors()
	var finished atomic.Int64
	broken := make(chan struct{})
	s.to.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/uploads/") ||
			strings.Contains(r.URL.Path, "landfall-trial") {
			return false
		}
		switch n := finished.Add(1); {
		case n == 4:
			close(broken)
			fallthrough
		case n > 4: // the registry is gone
			panic(http.ErrAbortHandler)
		}
		return false
	})
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	<-broken
	s.until("the failure is shown", func(now *handover.Status) bool {
		return now.State == handover.Copying && strings.Contains(now.Message, "It is tried again.")
	})
	require.Equal(t, before, s.mirrors())
	s.stop()
	s.to.intercept(nil)
	s.to.sent()
	s.start()
	s.until("the copy is complete", func(now *handover.Status) bool {
		return now.State != handover.Copying && now.State != handover.Proving
	})
	s.requireComplete()
	uploads, heads := 0, 0
	for _, request := range s.to.sent() {
		if strings.HasPrefix(request, "PUT ") && strings.Contains(request, "/uploads/") {
			uploads++
		}
		if strings.HasPrefix(request, "HEAD ") {
			heads++
		}
	}
	require.Equal(t, len(s.archive.Digests())-s.manifests()-3, uploads, "what the registry has is not sent again")
	require.NotZero(t, heads)
}

// manifests returns the number of manifests in the archive.
func (s *site) manifests() int {
	images, err := s.own.Images()
	require.NoError(s, err)
	digests := map[string]bool{}
	for _, image := range images {
		digests[image.Digest] = true
	}
	return len(digests)
}

// Case 53: what the new registry refuses is found by a trial upload, before anything is copied.
func TestFault53_refusals(t *testing.T) {
	refuse := func(status int, code string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"refused by the test"}]}`, code)
		}
	}
	for name, c := range map[string]struct {
		matches func(*http.Request) bool
		answer  func(http.ResponseWriter)
		says    []string
	}{
		"nested paths": {func(r *http.Request) bool {
			return strings.Count(r.URL.Path, "/") > 4 && strings.Contains(r.URL.Path, "/release-images/blobs/uploads")
		}, refuse(http.StatusBadRequest, "NAME_INVALID"), []string{"refuses the repository openshift/release-images",
			"400", "--add-mirror with a path"}},
		"sizes": {func(r *http.Request) bool { return r.Method == http.MethodPatch && r.ContentLength > 100 },
			refuse(http.StatusRequestEntityTooLarge, "SIZE_INVALID"), []string{"(413)", "client_max_body_size"}},
		"pushes": {func(r *http.Request) bool { return r.Method == http.MethodPost },
			refuse(http.StatusForbidden, "DENIED"), []string{"does not let these credentials push"}},
		"manifests": {func(r *http.Request) bool {
			return r.Method == http.MethodPut &&
				strings.Contains(r.URL.Path, "/manifests/")
		}, refuse(http.StatusBadRequest, "MANIFEST_INVALID"),
			[]string{"refuses an image in openshift/landfall-trial"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.start()
			s.to.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if c.matches(r) {
					c.answer(w)
					return true
				}
				return false
			})
			s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
			now := s.await(handover.Refused)
			for _, text := range c.says {
				require.Contains(t, now.Message, text)
			}
			for _, request := range s.to.sent() {
				require.NotContains(t, request, "PUT /v2/openshift/release", "nothing was copied")
			}
		})
	}
}
