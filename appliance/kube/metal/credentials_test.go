package metal

import (
	"log/slog"
	"testing"
	"time"

	metal3 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/controller"
	"landfall/appliance/kube/kubetest"
	"landfall/appliance/kube/objects"
	"landfall/store"
)

// sharedSecret is a store with two hosts, node0 and node1, and the Secrets bmc and other. Both
// hosts name the Secret bmc. The test calls each reconcile, so it sets their order.
type sharedSecret struct {
	*testing.T
	site *kubetest.Site
	o    *objects.Objects
	c    *Controllers
}

func newSharedSecret(t *testing.T) *sharedSecret {
	t.Helper()
	site := kubetest.New(t)
	clock := site.Clock
	s := &sharedSecret{T: t, site: site, o: site.Objects}
	s.c = New(Options{DB: site.DB, Objects: s.o, Servers: &refusingServers{reason: "No server."}, Clock: clock,
		Loop: controller.New(site.DB, clock, slog.New(slog.DiscardHandler))})
	s.update(func(tx *store.Tx) error {
		for _, name := range []string{"bmc", "other"} {
			if err := s.o.Create(tx, objects.Secrets, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: name},
				Data:       map[string][]byte{"username": []byte("admin"), "password": []byte("secret")},
			}, clock.Now()); err != nil {
				return err
			}
		}
		for _, name := range []string{"node0", "node1"} {
			host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: name}}
			host.Spec.BMC = metal3.BMCDetails{Address: "redfish-virtualmedia://192.0.2.1", CredentialsName: "bmc"}
			if err := s.o.Create(tx, objects.BareMetalHosts, host, clock.Now()); err != nil {
				return err
			}
		}
		return nil
	})
	s.reconcile("node0", "node1")
	require.Equal(t, []string{secretFinalizer}, s.finalizers("bmc"))
	return s
}

func (s *sharedSecret) update(fn func(tx *store.Tx) error) {
	s.Helper()
	s.site.Update(fn)
}

func (s *sharedSecret) reconcile(names ...string) {
	s.Helper()
	for _, name := range names {
		_, err := hosts{s.c}.Reconcile(s.Context(), "site", name)
		require.NoError(s, err)
	}
}

func (s *sharedSecret) deleteHosts(names ...string) {
	s.Helper()
	s.update(func(tx *store.Tx) error {
		for _, name := range names {
			if err := s.o.Delete(tx, objects.BareMetalHosts, "site", name, s.c.now()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sharedSecret) finalizers(secret string) []string {
	s.Helper()
	return s.read(secret).GetFinalizers()
}

// owners returns the names of the hosts that own a Secret.
func (s *sharedSecret) owners(secret string) (names []string) {
	s.Helper()
	for _, owner := range s.read(secret).GetOwnerReferences() {
		names = append(names, owner.Name)
	}
	return names
}

func (s *sharedSecret) read(secret string) *unstructured.Unstructured {
	s.Helper()
	u := &unstructured.Unstructured{}
	require.True(s, s.site.Get(objects.Secrets, "site", secret, u))
	return u
}

// rename changes the Secret that a host names.
func (s *sharedSecret) rename(host, secret string) {
	s.Helper()
	s.update(func(tx *store.Tx) error {
		return s.o.Update(tx, objects.BareMetalHosts, "site", host, func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, secret, "spec", "bmc", "credentialsName")
		})
	})
}

// The deletion of a namespace deletes all hosts at once. A finalizer that stays on their Secret
// would block the namespace for ever.
func TestBMCSecret_releasedWithTheLastOfTwoHosts(t *testing.T) {
	s := newSharedSecret(t)
	s.deleteHosts("node0", "node1")
	s.reconcile("node0", "node1", "node0")
	require.Equal(t, []string{secretFinalizer}, s.finalizers("bmc"), "node1 is not released yet")
	s.reconcile("node1")
	require.Empty(t, s.finalizers("bmc"))
}

func TestBMCSecret_releasedWhenNoHostNamesIt(t *testing.T) {
	s := newSharedSecret(t)
	s.deleteHosts("node1")
	s.reconcile("node1", "node1")
	s.rename("node0", "other")
	s.reconcile("node0")
	require.Empty(t, s.finalizers("bmc"))
	require.Equal(t, []string{secretFinalizer}, s.finalizers("other"))
}

// A host must not own a Secret that it no longer names: the Secret would be deleted with the host.
func TestBMCSecret_isNotOwnedByAFormerHost(t *testing.T) {
	s := newSharedSecret(t)
	require.Equal(t, []string{"node0", "node1"}, s.owners("bmc"))
	s.rename("node0", "other")
	s.reconcile("node0")
	require.Equal(t, []string{"node1"}, s.owners("bmc"))
	require.Equal(t, []string{secretFinalizer}, s.finalizers("bmc"), "node1 names it")
	require.Equal(t, []string{"node0"}, s.owners("other"))
	s.rename("node1", "other")
	s.reconcile("node1")
	require.Empty(t, s.owners("bmc"))
	require.Empty(t, s.finalizers("bmc"))
}

func TestBMCSecret_releasedWithHostsWithoutFinalizers(t *testing.T) {
	s := newSharedSecret(t)
	s.removeHosts()
	s.reconcile("node0", "node1")
	require.Empty(t, s.finalizers("bmc"))
}

// An older version kept the finalizer if it deleted two hosts of one Secret at once.
func TestBMCSecret_deletionOfOlderVersionEnds(t *testing.T) {
	s := newSharedSecret(t)
	s.deleteSecret()
	require.Positive(t, s.checkDeletion())
	require.Equal(t, []string{secretFinalizer}, s.finalizers("bmc"), "the hosts use it")
	s.removeHosts()
	s.c = New(s.c.Options) // a start
	require.Zero(t, s.checkDeletion())
	require.False(t, s.site.Get(objects.Secrets, "site", "bmc", &unstructured.Unstructured{}))
}

// A repaired host needs its credentials.
func TestBMCSecret_isKeptForADamagedHost(t *testing.T) {
	for name, restart := range map[string]bool{"noticed after the load of the index": false, "noticed at start": true} {
		t.Run(name, func(t *testing.T) {
			s := newSharedSecret(t)
			s.deleteSecret()
			s.deleteHosts("node0")
			s.damage(objects.BareMetalHosts, "node1", restart)
			s.reconcile("node0", "node0")
			require.False(t, s.site.Get(objects.BareMetalHosts, "site", "node0", &unstructured.Unstructured{}),
				"the damage does not block node0")
			require.Positive(t, s.checkDeletion())
			require.Equal(t, []string{secretFinalizer}, s.finalizers("bmc"))
		})
	}
}

// The deletion of a host needs no credentials: the BMC manager has its own.
func TestBMCSecret_damagedDoesNotBlockDeletion(t *testing.T) {
	for name, restart := range map[string]bool{"noticed after the load of the index": false, "noticed at start": true} {
		t.Run(name, func(t *testing.T) {
			s := newSharedSecret(t)
			s.deleteHosts("node0", "node1")
			s.damage(objects.Secrets, "bmc", restart)
			s.reconcile("node0", "node0", "node1", "node1")
			for _, host := range []string{"node0", "node1"} {
				require.False(t, s.site.Get(objects.BareMetalHosts, "site", host, &unstructured.Unstructured{}), host)
			}
		})
	}
}

func TestBMCSecret_damagedDoesNotBlockItsSuccessor(t *testing.T) {
	s := newSharedSecret(t)
	s.damage(objects.Secrets, "bmc", false)
	s.rename("node0", "other")
	s.reconcile("node0")
	require.Equal(t, []string{secretFinalizer}, s.finalizers("other"))
}

// The index lacks a host before its first pass.
func TestBMCSecret_isKeptForANewHost(t *testing.T) {
	s := newSharedSecret(t)
	s.update(func(tx *store.Tx) error {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "node2"}}
		host.Spec.BMC.CredentialsName = "bmc"
		return s.o.Create(tx, objects.BareMetalHosts, host, s.c.now())
	})
	s.removeHosts()
	s.reconcile("node0", "node1")
	require.Equal(t, []string{secretFinalizer}, s.finalizers("bmc"))
}

// damage makes the row of an object unreadable, and then optionally restarts the controllers.
func (s *sharedSecret) damage(kind objects.Kind, name string, restart bool) {
	s.Helper()
	s.site.Damage(kind, "site", name)
	s.c.DB = s.site.DB
	s.c.Loop = controller.New(s.site.DB, s.site.Clock, slog.New(slog.DiscardHandler))
	if restart {
		s.c = New(s.c.Options)
	}
}

func (s *sharedSecret) deleteSecret() {
	s.Helper()
	s.update(func(tx *store.Tx) error { return s.o.Delete(tx, objects.Secrets, "site", "bmc", s.c.now()) })
}

// checkDeletion checks the deletion of the Secret as the loop does.
func (s *sharedSecret) checkDeletion() (again time.Duration) {
	s.Helper()
	again, err := blockedDeletions{s.c}.Reconcile(s.Context(), "site", "secrets|bmc")
	require.NoError(s, err)
	return again
}

// removeHosts deletes both hosts and their finalizers, without a pass.
func (s *sharedSecret) removeHosts() {
	s.Helper()
	s.deleteHosts("node0", "node1")
	for _, name := range []string{"node0", "node1"} {
		s.update(func(tx *store.Tx) error {
			return s.o.Update(tx, objects.BareMetalHosts, "site", name, func(u *unstructured.Unstructured) error {
				u.SetFinalizers(nil)
				return nil
			})
		})
	}
}
