package registry_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/appliance/registry"
	"landfall/appliance/registry/medium"
	"landfall/appliance/registry/overlay"
	simulated "landfall/appliance/simulate/registry"
	"landfall/store"
)

const packed1 = "mirror_000001.tar.gz"

// writePacked writes a compressed archive and returns the size of its tar archive.
func (s *site) writePacked(name string, a *simulated.Archive) (unpacked int64) {
	s.Helper()
	data, unpacked := packedBytes(s, name, a)
	require.NoError(s, os.WriteFile(s.path(name), data, 0o600))
	return unpacked
}

// packedBytes returns the bytes of a compressed archive, and the number of them that it unpacks to.
func packedBytes(t testing.TB, name string, a *simulated.Archive) (data []byte, unpacked int64) {
	t.Helper()
	var plain, packed bytes.Buffer
	require.NoError(t, a.Write(&plain))
	var w io.WriteCloser = gzip.NewWriter(&packed)
	if name != packed1 {
		var err error
		w, err = zstd.NewWriter(&packed)
		require.NoError(t, err)
	}
	_, err := w.Write(plain.Bytes())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return packed.Bytes(), int64(plain.Len())
}

// awaitMedium waits until the only medium is in a state. The time goes on meanwhile.
func (s *site) awaitMedium(what string, is func(registry.MediumStatus) bool) registry.MediumStatus {
	s.Helper()
	var last []registry.MediumStatus
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		changed := s.registry.Changed()
		last = s.registry.Status().Media
		if len(last) == 1 && is(last[0]) {
			return last[0]
		}
		s.clock.Advance(time.Second)
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		}
	}
	require.FailNow(s, "not seen: "+what, "%+v %+v", last, s.registry.Status().Unusable)
	return registry.MediumStatus{}
}

func (s *site) awaitUnpacked() registry.MediumStatus {
	s.Helper()
	return s.awaitMedium("the archive is unpacked", func(m registry.MediumStatus) bool {
		return m.Container == medium.Tar && m.Staging.State == registry.StageWhole
	})
}

func (s *site) awaitPacked(state string) registry.MediumStatus {
	s.Helper()
	return s.awaitMedium("the unpacking is "+state, func(m registry.MediumStatus) bool {
		return m.Container == medium.Compressed && m.Staging.State == state
	})
}

// Case 9: a compressed archive is not served. It says what its copy takes, and the copy is served
// without the archive, also after a restart.
func TestFault09_compressedArchive(t *testing.T) {
	for _, name := range []string{packed1, "mirror_000001.tar.zst"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			a, layers := layered(t, 1, 3<<20)
			size := s.writePacked(name, a)
			s.start()
			m := s.awaitPacked("")
			require.Contains(t, m.Problems[0], "the archive is compressed")
			require.Equal(t, http.StatusNotFound, s.get("/v2/team/image/manifests/v0").StatusCode)

			plan, err := s.registry.PlanStage(m.Label)
			require.NoError(t, err)
			require.True(t, plan.AtLeast)
			require.InDelta(t, size, plan.Needed, 0.01*float64(size))
			require.Equal(t, []string{m.Label}, plan.Media)
			s.stage()
			s.awaitUnpacked()
			s.remove(name)
			s.pullAll(1, layers)
			require.Equal(t, size, s.registry.Status().StagedBytes)

			s.stop()
			s.start()
			s.awaitUnpacked()
			s.pullAll(1, layers)
			_, err = s.registry.PlanStage("all")
			require.NoError(t, err)

			require.NoError(t, s.registry.CancelStage(t.Context(), "all"))
			s.pullAll(1, layers)
			done, err := s.registry.Collect(t.Context())
			require.NoError(t, err)
			require.Equal(t, size, done.Bytes)
			require.Zero(t, s.registry.Status().StagedBytes)
			require.Empty(t, s.registry.Status().Media)
			s.stop()
			s.start()
			require.Empty(t, s.registry.Status().Media)
		})
	}
}

// A stick with a compressed archive is pulled out in the middle. The copy waits, and continues when
// the stick is back, also after a restart.
func TestUnpack_mediumRemovedAndBack(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := newSite(t)
		f := &faults{left: -1}
		s.open = f.open
		a, layers := layered(t, 1, 6<<20)
		s.writePacked(packed1, a)
		s.start()
		f.set(3<<20, nil)
		s.stage()
		s.awaitMedium("a part is unpacked", func(registry.MediumStatus) bool {
			return s.registry.Status().StagedBytes > 1<<20
		})
		s.remove(packed1)
		s.awaitPacked(registry.StageWaiting)
		f.set(-1, nil)
		if restarts {
			s.stop()
			s.start()
			s.awaitPacked(registry.StageWaiting)
		}
		s.put(packed1)
		s.awaitUnpacked()
		s.pullAll(1, layers)
	}
}

// A compressed archive that becomes larger than it seems waits for room. One that does not fit by
// its own size is refused.
func TestUnpack_noRoom(t *testing.T) {
	s := newSite(t)
	s.bytes = 2 << 20
	a := &simulated.Archive{}
	layer := make([]byte, 6<<20) // a small part of it when it is compressed
	digest, err := a.AddBlob(t.Context(), "team/image", "v0", layer)
	require.NoError(t, err)
	s.writePacked("mirror_000001.tar.zst", a)
	s.start()
	s.stage()
	m := s.awaitPacked(registry.StageFull)
	require.Contains(t, m.Staging.Message, "limited by registry.bytes")
	require.LessOrEqual(t, s.registry.Status().StagedBytes, s.bytes)
	s.stop()
	s.bytes = 0
	s.start()
	s.awaitUnpacked()
	s.pullAll(1, map[string][]byte{digest: layer})

	s = newSite(t)
	s.bytes = 1 << 20
	a, _ = layered(t, 1, 3<<20)
	s.writePacked(packed1, a)
	s.start()
	_, err = s.registry.Stage(t.Context(), "all")
	require.Equal(t, fault.NoSpace, fault.KindOf(err))
	require.Zero(t, s.registry.Status().StagedBytes)
}

// A damaged compressed archive, and one without a tar archive, are named and not tried again.
func TestUnpack_damaged(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"cut off":      func(packed []byte) []byte { return packed[:len(packed)-100] },
		"flipped bits": func(packed []byte) []byte { packed[1<<20] ^= 1; return packed },
		"no tar": func([]byte) []byte {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(make([]byte, 10<<10)) // never fails
			_ = w.Close()                        // never fails
			return packed.Bytes()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			a, _ := layered(t, 1, 3<<20)
			s.writePacked(packed1, a)
			packed, err := os.ReadFile(s.path(packed1))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(s.path(packed1), damage(packed), 0o600))
			s.start()
			s.stage()
			require.Contains(t, s.awaitPacked(registry.StageDamaged).Staging.Message, "can't be unpacked")
		})
	}
}

// flipUnpacked flips a bit of a layer in the unpacked archive, as a disk that decays does.
func (s *site) flipUnpacked(layer []byte) {
	s.Helper()
	require.NoError(s, filepath.WalkDir(filepath.Join(s.data, "registry", "unpacked"),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			require.NoError(s, err)
			content, err := os.ReadFile(path)
			require.NoError(s, err)
			at := bytes.Index(content, layer)
			require.Positive(s, at)
			content[at+len(layer)/2] ^= 1
			require.NoError(s, os.WriteFile(path, content, 0o600))
			return os.Chtimes(path, info.ModTime(), info.ModTime())
		}))
}

// An unpacked archive that becomes damaged is made again from the compressed one, which a pull or a
// verification finds damaged. Without the compressed one, the status says what to do.
func TestUnpack_damagedLater(t *testing.T) {
	for name, isAway := range map[string]bool{"archive there": false, "archive away": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			a, layers := layered(t, 1, 3<<20)
			s.writePacked(packed1, a)
			s.start()
			s.stage()
			s.awaitUnpacked()
			digest := slices.Collect(maps.Keys(layers))[0]
			if isAway {
				s.remove(packed1)
			}
			s.stop()
			s.flipUnpacked(layers[digest])
			s.start()
			s.awaitUnpacked()
			got := s.get("/v2/team/image/blobs/" + digest)
			require.True(t, got.err != nil || len(got.body) != len(layers[digest]))
			if isAway {
				m := s.awaitMedium("the archive is needed", func(m registry.MediumStatus) bool {
					return m.Staging.State == registry.StageWaiting
				})
				require.Contains(t, m.Staging.Message, "plug in "+filepath.Base(s.dir)+"/"+packed1+" again")
				s.put(packed1)
			}
			s.awaitMedium("the copy is sound", func(m registry.MediumStatus) bool {
				return m.Staging.State == registry.StageWhole && len(m.Damaged) == 0
			})
			s.pullAll(2, layers)
		})
	}
}

// A compressed archive with a damaged layer is not unpacked again and again.
func TestUnpack_damagedContent(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 1, 3<<20)
	digest := slices.Collect(maps.Keys(layers))[0]
	var plain, packed bytes.Buffer
	require.NoError(t, a.Write(&plain))
	at := bytes.Index(plain.Bytes(), layers[digest])
	plain.Bytes()[at+100] ^= 1
	w := gzip.NewWriter(&packed)
	_, err := w.Write(plain.Bytes())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(s.path(packed1), packed.Bytes(), 0o600))
	s.start()
	s.stage()
	s.awaitUnpacked()
	got := s.get("/v2/team/image/blobs/" + digest)
	require.True(t, got.err != nil || len(got.body) != len(layers[digest]))
	m := s.awaitMedium("the archive is damaged", func(m registry.MediumStatus) bool {
		return m.Staging.State == registry.StageDamaged
	})
	require.Contains(t, m.Staging.Message, "the compressed archive has the same damage")
}

// A compressed archive is copied to a watched folder. It can't be ordered meanwhile. If the copy
// pauses so long that it counts as whole, and somebody orders it, the order is one of the whole
// archive in the end.
func TestUnpack_archiveIsBeingCopied(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 1, 3<<20)
	packed, size := packedBytes(t, packed1, a)
	s.start()
	label := filepath.Base(s.dir) + "/" + packed1

	s.writePart(packed1, packed[:len(packed)/4], time.Second)
	require.Eventually(t, func() bool {
		s.registry.Look()
		return strings.Contains(s.registry.Status().Unusable[0].Problem, packed1+" is still being copied")
	}, time.Minute, time.Millisecond)
	require.Empty(t, s.registry.Status().Media)
	_, err := s.registry.Stage(t.Context(), label)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, packed1+" is still being copied")
	_, err = s.registry.Stage(t.Context(), "all")
	require.ErrorContains(t, err, packed1+" is still being copied")

	s.writePart(packed1, packed[:len(packed)/2], settled)
	s.look()
	_, err = s.registry.Stage(t.Context(), label)
	require.NoError(t, err)
	require.Contains(t, s.awaitPacked(registry.StageDamaged).Staging.Message, "it ends early")
	s.writePart(packed1, packed[:len(packed)-1], time.Second)
	s.awaitStaging(packed1, registry.StageWaiting)
	require.Contains(t, s.registry.Status().Media[0].Staging.Message, "is still being copied")
	s.writePart(packed1, packed, settled)
	s.awaitUnpacked()
	s.pullAll(1, layers)
	require.Equal(t, size, s.registry.Status().StagedBytes)
}

// A compressed archive that was copied is replaced in its place. Its copy stays, and the status
// says what the newer one has of it, and how to remove it.
func TestUnpack_replaced(t *testing.T) {
	pack := func(s *site, count int, age time.Duration) (layers map[string][]byte, size int64) {
		a, layers := layered(s, count, 1<<20)
		data, size := packedBytes(s, packed1, a)
		s.writePart(packed1, data, age)
		return layers, size
	}
	formerOf := func(s *site) (former registry.MediumStatus) {
		for _, m := range s.registry.Status().Media {
			if strings.Contains(m.Label, "@") {
				former = m
			}
		}
		return former
	}
	t.Run("by more", func(t *testing.T) {
		s := newSite(t)
		_, firstSize := pack(s, 1, time.Hour)
		s.start()
		s.stage()
		s.awaitUnpacked()
		layers, size := pack(s, 3, settled)
		s.awaitStaging(packed1, "")
		label := filepath.Base(s.dir) + "/" + packed1
		require.Equal(t, "another archive lies in its place now; landfall registry stage \""+label+"\" copies that one",
			formerOf(s).Staging.Message)
		_, err := s.registry.Stage(t.Context(), label)
		require.NoError(t, err)
		s.awaitStaging("mirror_000001.tar", registry.StageWhole)
		former := formerOf(s)
		require.Contains(t, former.Staging.Message, "is copied and has all of its content; landfall registry stage \""+
			former.Label+"\" --cancel and landfall registry gc remove this copy")
		require.Equal(t, firstSize+size, s.registry.Status().StagedBytes)
		require.NoError(t, s.registry.CancelStage(t.Context(), former.Label))
		_, err = s.registry.Collect(t.Context())
		require.NoError(t, err)
		require.Equal(t, size, s.registry.Status().StagedBytes)
		s.awaitUnpacked()
		s.pullAll(1, layers)
	})
	t.Run("by others", func(t *testing.T) {
		s := newSite(t)
		first, firstSize := pack(s, 3, time.Hour)
		s.start()
		s.stage()
		s.awaitUnpacked()
		layers, size := pack(s, 1, settled)
		s.awaitStaging(packed1, "")
		_, err := s.registry.Stage(t.Context(), filepath.Base(s.dir)+"/"+packed1)
		require.NoError(t, err)
		s.awaitStaging("mirror_000001.tar", registry.StageWhole)
		s.pullAll(1, layers)
		s.pullAll(1, first)
		former := formerOf(s)
		require.Contains(t, former.Staging.Message, "lacks some of its content")
		require.Contains(t, former.Staging.Message, "registry stage \""+former.Label+"\" --cancel")
		require.Equal(t, firstSize+size, s.registry.Status().StagedBytes)
		require.NoError(t, s.registry.CancelStage(t.Context(), former.Label))
		_, err = s.registry.Collect(t.Context())
		require.NoError(t, err)
		require.Equal(t, size, s.registry.Status().StagedBytes)
		s.pullAll(1, layers)
	})
}

// awaitStaging waits until the medium with a name in its folder has a copy in a state.
func (s *site) awaitStaging(name, state string) {
	s.Helper()
	require.Eventually(s, func() bool {
		s.registry.Look()
		return slices.ContainsFunc(s.registry.Status().Media, func(m registry.MediumStatus) bool {
			return m.Label == filepath.Base(s.dir)+"/"+name && m.Staging.State == state
		})
	}, time.Minute, time.Millisecond)
}

// A restart does not change since when an archive is missing. An archive that was back is missing
// anew.
func TestUnpack_missingSinceAfterRestart(t *testing.T) {
	s := newSite(t)
	f := &faults{left: -1}
	s.open = f.open
	var room atomic.Int64
	room.Store(1 << 40)
	s.free = func(string) (int64, error) { return room.Load(), nil }
	other, _, _ := randomArchive(t)
	s.write(archive1, other)
	a, _ := layered(t, 1, 6<<20)
	s.writePacked(packed1, a)
	s.start()
	f.set(3<<20, nil)
	_, err := s.registry.Stage(t.Context(), s.path(packed1))
	require.NoError(t, err)
	missingSince := func() time.Time {
		require.NoError(t, s.registry.Add(t.Context(), s.dir)) // waits for a look
		media := slices.DeleteFunc(s.registry.Status().Media, func(m registry.MediumStatus) bool {
			return m.Container != medium.Compressed
		})
		require.Len(t, media, 1)
		require.False(t, media[0].Present)
		return media[0].Since
	}
	s.remove(packed1)
	first := missingSince()
	s.stop()
	s.clock.Advance(time.Hour)
	s.start()
	require.Equal(t, first.UTC(), missingSince().UTC())

	room.Store(0) // it is not unpacked
	f.set(-1, nil)
	s.put(packed1)
	require.NoError(t, s.registry.Add(t.Context(), s.dir))
	s.stop()
	require.NoError(t, os.Remove(s.path(packed1)))
	s.clock.Advance(time.Hour)
	s.start()
	require.Equal(t, s.clock.Now().UTC(), missingSince().UTC())
}

// A member that has unpacked an archive serves it also when it follows, and when the path of the
// archive is no longer in its configuration.
func TestUnpack_memberFollows(t *testing.T) {
	s := newSite(t)
	a, layers := layered(t, 1, 1<<20)
	s.writePacked(packed1, a)
	s.start()
	s.stage()
	s.awaitUnpacked()
	s.stop()
	s.dir, s.shared = t.TempDir(), new(overlay.Shared)
	s.start()
	s.awaitMedium("the archive of the former path", func(m registry.MediumStatus) bool { return m.Present })
	require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error { // the leader adds a path
		now := s.clock.Now()
		return store.NewBucket[time.Time]("registry-added", 1).Put(tx, "/media/other", &now)
	}))
	s.awaitMedium("the path of the leader", func(registry.MediumStatus) bool {
		return slices.ContainsFunc(s.registry.Status().Unusable, func(u registry.Unusable) bool {
			return u.Path == "/media/other"
		})
	})
	s.pullAll(1, layers)
}
