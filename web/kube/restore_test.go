package kube_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"landfall/appliance/kube/objects"
	"landfall/logtest"
	"landfall/store"
	"landfall/web/kube"
)

// life runs the API once over a data directory, with the revisions of the appliance.
func life(t *testing.T, dir string, fn func(*site)) {
	t.Helper()
	db, err := store.Open(t.Context(), dir, store.Options{Versioned: kube.Bucket, NoSync: true,
		Floor: uint64(time.Now().UnixMicro())})
	require.NoError(t, err)
	s := &site{db: db, options: kube.Options{
		DB: db, Objects: objects.New(nil, nil), Address: "site.example:8090", Clock: clockwork.NewRealClock(),
		Logger: logtest.New(t, slog.LevelInfo), Open: true,
	}}
	s.start(t)
	fn(s)
	s.stop(t)
	require.NoError(t, db.Close())
}

func TestWatch_afterRestore(t *testing.T) {
	dir, backup := t.TempDir(), t.TempDir()
	write := func(s *site, name, value string) string {
		u, err := s.of(objects.ConfigMaps, "default").Create(t.Context(), object(t, objects.ConfigMaps, "default",
			name, `"data": {"is": "`+value+`"}`), metav1.CreateOptions{})
		require.NoError(t, err)
		return u.GetResourceVersion()
	}
	var kept, lost string
	life(t, dir, func(s *site) { kept = write(s, "kept", "1") })
	text, err := os.ReadFile(filepath.Join(dir, store.FileName))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(backup, store.FileName), text, 0o600))
	life(t, dir, func(s *site) {
		for i := range 5 {
			lost = write(s, "lost-"+strconv.Itoa(i), "1")
		}
	})
	life(t, backup, func(s *site) {
		configMaps := s.of(objects.ConfigMaps, "default")
		expired := func(when string) {
			t.Helper()
			w, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: lost})
			if err == nil {
				event := eventOf(t, w)
				require.Equal(t, watch.Error, event.Type, "%s: the watch sent %v", when, event.Object)
				err = apierrors.FromObject(event.Object)
			}
			require.True(t, apierrors.IsResourceExpired(err) || apierrors.IsGone(err), "%s: %v", when, err)
		}
		expired("before the first write")
		for i := range 10 { // more writes than were lost, so that the revisions differ
			write(s, "new-"+strconv.Itoa(i), "2")
		}
		expired("after more writes than were lost")
		_, err := configMaps.List(t.Context(), metav1.ListOptions{ResourceVersion: lost,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		require.True(t, apierrors.IsResourceExpired(err), "%v", err)
		stale := object(t, objects.ConfigMaps, "default", "new-0", `"data": {"is": "3"}`)
		stale.SetResourceVersion(lost)
		_, err = configMaps.Update(t.Context(), stale, metav1.UpdateOptions{})
		require.True(t, apierrors.IsConflict(err), "%v", err)
		// The objects from before the backup have not changed.
		w, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: kept,
			FieldSelector: "metadata.name=new-0"})
		require.NoError(t, err)
		require.Equal(t, watch.Added, eventOf(t, w).Type)
	})
}
