package handover_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/registry/handover"
	simulated "landfall/appliance/simulate/registry"
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
			require.False(t, s.isNoted())
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
		sparse  bool // a list on the media lacks an image
	}{
		"nested paths": {func(r *http.Request) bool {
			return strings.Count(r.URL.Path, "/") > 4 && strings.Contains(r.URL.Path, "/release-images/blobs/uploads")
		}, refuse(http.StatusBadRequest, "NAME_INVALID"), []string{"refuses the repository openshift/release-images",
			"400", "--add-mirror with a path"}, false},
		"sizes": {func(r *http.Request) bool { return r.Method == http.MethodPatch && r.ContentLength > 100 },
			refuse(http.StatusRequestEntityTooLarge, "SIZE_INVALID"), []string{"(413)", "client_max_body_size"}, false},
		"pushes": {func(r *http.Request) bool { return r.Method == http.MethodPost },
			refuse(http.StatusForbidden, "DENIED"), []string{"does not let these credentials push"}, false},
		"manifests": {func(r *http.Request) bool {
			return r.Method == http.MethodPut &&
				strings.Contains(r.URL.Path, "/manifests/")
		}, refuse(http.StatusBadRequest, "MANIFEST_INVALID"),
			[]string{"refuses an image in openshift/landfall-trial"}, false},
		"sparse lists": {func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/landfall-trial-list")
		}, refuse(http.StatusNotFound, "MANIFEST_BLOB_UNKNOWN"), []string{"refuses image lists whose images for " +
			"other architectures are absent (404", "1 list on the media is such, the first is quay.io/team/app:v1",
			"validation.manifests.indexes.platforms: none"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if c.sparse {
				s.writeSparseList()
			}
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

// A registry that refuses sparse lists gets media without such lists, and one that takes them gets
// the lists.
func TestHandOver_sparseLists(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		t.Run(fmt.Sprint(sparse), func(t *testing.T) {
			s := newSite(t)
			if sparse {
				s.writeSparseList()
			}
			s.start()
			s.to.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				refused := !sparse && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "-list")
				if refused {
					w.WriteHeader(http.StatusNotFound)
				}
				return refused
			})
			s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
			s.await(handover.Asking)
			if sparse {
				_, err := s.to.Find("quay.io/team/app", "v1")
				require.NoError(t, err)
				return
			}
			s.requireComplete()
		})
	}
}

// The site's registry is the appliance's own under another name: a copy to itself would find
// everything there.
func TestHandOver_toItself(t *testing.T) {
	s := newSite(t)
	s.start()
	s.own.also = s.to.Registry
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	require.Contains(t, s.await(handover.Refused).Message, "leads to the appliance's own registry")
}

// A registry that says after each part that it has nothing gets the blob all the same. One that
// says that it has less than it accepted is not sent parts forever.
func TestHandOver_wrongRanges(t *testing.T) {
	s := newSite(t)
	s.start()
	s.to.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			s.to.handler.ServeHTTP(rangeWriter{w}, r)
		}
		return r.Method == http.MethodPatch
	})
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	s.await(handover.Asking)
	s.requireComplete()

	s = newSite(t)
	s.start()
	s.to.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		status := map[string]int{http.MethodPatch: http.StatusAccepted, http.MethodGet: http.StatusNoContent}[r.Method]
		isPart := strings.Contains(r.URL.Path, "/uploads/") && status != 0
		if isPart {
			w.Header().Set("Location", r.URL.Path)
			w.Header().Set("Range", "0-9")
			w.WriteHeader(status)
		}
		return isPart
	})
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	s.until("the failure is shown", func(now *handover.Status) bool {
		return strings.Contains(now.Message, "but says that it has only 10 bytes")
	})
}

// rangeWriter answers that the registry has nothing of an upload.
type rangeWriter struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w rangeWriter) WriteHeader(status int) {
	w.Header().Set("Range", "0-0")
	w.ResponseWriter.WriteHeader(status)
}

// A damaged blob that is sent in parts is compared once, and left out then.
func TestHandOver_damagedBlobInParts(t *testing.T) {
	s := newSite(t)
	layer := make([]byte, 100<<10)
	for i := range layer {
		layer[i] = byte(i >> 8)
	}
	_, err := s.archive.AddBlob(t.Context(), "team/image", "v1", layer)
	require.NoError(t, err)
	var archive bytes.Buffer
	require.NoError(t, s.archive.Write(&archive))
	archive.Bytes()[bytes.Index(archive.Bytes(), layer)] ^= 1
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "stick"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "stick", "mirror_000001.tar"), archive.Bytes(), 0o600))
	s.start()
	s.setMirrors()
	s.to.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || r.ContentLength != int64(len(layer)) {
			return false
		}
		half := r.Clone(r.Context())
		half.Body, half.ContentLength = io.NopCloser(io.LimitReader(r.Body, 50<<10)), 50<<10
		s.to.handler.ServeHTTP(httptest.NewRecorder(), half)
		panic(http.ErrAbortHandler)
	})
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	s.until("the image with the damage is named", func(now *handover.Status) bool {
		return len(now.Incomplete) == 1 && strings.Contains(now.Incomplete[0], "team/image")
	})
}

// A GitOps controller that changes the mirror sets back keeps the cluster dependent.
func TestHandOver_mirrorsChangedBack(t *testing.T) {
	s := newSite(t)
	s.start()
	s.setMirrors()
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	configuration := 1
	changedBack := func(in handover.ClusterState) {
		configuration++
		s.until("the cluster is "+string(in), func(now *handover.Status) bool {
			return len(now.Clusters) == 1 && now.Clusters[0].State == in
		})
		changed := s.mirrors()
		s.putMirrors(ownName + "/openshift/release-images")
		s.rolledOut(configuration)
		s.until("it is said", func(now *handover.Status) bool {
			return strings.Contains(now.Clusters[0].Message, "mirror sets were changed back")
		})
		require.Equal(t, in, s.now().Clusters[0].State)
		s.putMirrors(changed...)
	}
	changedBack(handover.RollingIn)
	s.await(handover.Asking)
	_, err := s.service.Confirm(t.Context(), []string{clusterName, "oen.site.test"})
	require.ErrorContains(t, err, `The hand-over has no cluster "oen.site.test".`)
	_, err = s.service.Confirm(t.Context(), []string{clusterName})
	require.NoError(t, err)
	changedBack(handover.RollingOut)
	s.await(handover.Done)
}

// addMirror hands over until the cluster has both mirrors.
func (s *site) addMirror() {
	s.Helper()
	s.setMirrors()
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	s.until("the change is awaited", func(now *handover.Status) bool {
		return len(now.Clusters) == 1 && now.Clusters[0].State == handover.RollingIn
	})
	s.rolledOut(2)
	s.await(handover.Asking)
}

// A mirror set that came after the second mirror gets it before it loses the first.
func TestHandOver_mirrorSetComesLater(t *testing.T) {
	s := newSite(t)
	s.start()
	s.addMirror()
	s.putMirrors(ownName + "/openshift/release-images")
	_, err := s.service.Confirm(t.Context(), nil)
	require.NoError(t, err)
	s.until("the removal is awaited", func(now *handover.Status) bool {
		return now.Clusters[0].State == handover.RollingOut
	})
	require.Equal(t, []string{s.to.host() + "/openshift/release-images"}, s.mirrors())
	s.rolledOut(3)
	s.await(handover.Done)
}

// A cancellation withdraws the word to remove the first mirror. A hand-over to yet another registry
// knows the clusters that do not depend on the appliance.
func TestHandOver_cancelledAndStartedAgain(t *testing.T) {
	s := newSite(t)
	s.start()
	s.addMirror()
	s.cluster.Answer(func(*http.Request) int { return http.StatusServiceUnavailable })
	_, err := s.service.Confirm(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, s.isNoted())
	now, err := s.service.Cancel(t.Context())
	require.NoError(t, err)
	require.True(t, s.isNoted(), "the cancelled one can be started again")
	require.Equal(t, handover.Both, now.Clusters[0].State)
	s.cluster.Answer(nil)
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	s.await(handover.Asking)

	_, err = s.service.Confirm(t.Context(), nil)
	require.NoError(t, err)
	s.until("the removal is awaited", func(now *handover.Status) bool {
		return now.Clusters[0].State == handover.RollingOut
	})
	s.rolledOut(3)
	s.await(handover.Done)
	_, err = s.service.Cancel(t.Context())
	require.NoError(t, err)
	s.begin(handover.Request{Way: handover.AddMirror, To: s.newLater().host()})
	require.Equal(t, handover.Independent, s.now().Clusters[0].State)
	dependents, err := s.dependents()
	require.NoError(t, err)
	require.Empty(t, dependents)
}

// The CAs that a cluster trusts for the registry stay.
func TestHandOver_addsCA(t *testing.T) {
	s := newSite(t)
	s.start()
	s.setMirrors()
	key := strings.Replace(s.to.host(), ":", "..", 1)
	s.cluster.Put("apis/config.openshift.io/v1/images", map[string]any{"metadata": map[string]any{"name": "cluster"},
		"spec": map[string]any{"additionalTrustedCA": map[string]any{"name": "cas"}}})
	s.cluster.Put("api/v1/configmaps", map[string]any{"metadata": map[string]any{"name": "cas",
		"namespace": "openshift-config"}, "data": map[string]any{key: "theirs", "other": "another"}})
	ca := string(s.spokes.CA())
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host(), CA: ca})
	s.until("the cluster is changed", func(now *handover.Status) bool {
		return len(now.Clusters) == 1 && now.Clusters[0].State == handover.RollingIn
	})
	require.Equal(t, map[string]any{key: "theirs\n" + ca, "other": "another"},
		s.cluster.Object("api/v1/configmaps", "openshift-config", "cas").Object["data"])
}

// A lost stick keeps the hand-over waiting until a person gives the stick up.
func TestHandOver_lostMedium(t *testing.T) {
	s := newSite(t)
	stick := filepath.Join(s.dir, "stick", "mirror_000001.tar")
	other := filepath.Join(s.dir, "other", "lost.tar")
	require.NoError(t, os.MkdirAll(filepath.Dir(stick), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Dir(other), 0o700))
	require.NoError(t, s.archive.WriteFile(stick))
	lost := &simulated.Archive{}
	_, err := lost.AddBlob(t.Context(), "team/lost", "v1", []byte("layer"))
	require.NoError(t, err)
	require.NoError(t, lost.WriteFile(other))
	s.start()
	require.NoError(t, s.own.Add(t.Context(), filepath.Dir(other)))
	require.NoError(t, os.Remove(other))
	changed := s.own.Changed()
	s.own.Look()
	<-changed
	s.begin(handover.Request{Way: handover.AddMirror, To: s.to.host()})
	s.until("the lost stick is named", func(now *handover.Status) bool {
		return strings.Contains(now.Message, "the medium other/lost.tar is missing since") &&
			strings.Contains(now.Message, "landfall registry remove")
	})
	require.NoError(t, s.own.Remove(t.Context(), "other/lost.tar"))
	s.await(handover.Asking)
	s.requireComplete()
}
