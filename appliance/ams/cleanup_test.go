package ams

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

func TestCleanup_deletedClusterAfterRetention(t *testing.T) {
	s := newSite(t)
	s.offline()
	id := s.register("one")
	s.install(id, "9f1b8a38-3f5c-4b77-9d2c-0a3f3f0c6c11", "one.site.test")
	s.online()
	s.settle(soon)
	s.offline()
	s.delete(id)
	s.settle(soon)
	require.NotEmpty(t, s.traces(id), "the deletion is not reported to AMS yet")
	s.online()
	s.settle(soon)
	require.NotEmpty(t, s.recorded(id).Closed)
	for range 2 {
		s.clock.Advance(retention + 2*cleanupInterval)
		s.relay.cleanUp(t.Context(), s.clock.Now())
	}
	require.Empty(t, s.traces(id))
}

// traces returns the keys in the store that contain a cluster's ID, apart from the store's own
// history.
func (s *site) traces(id string) (found []string) {
	s.Helper()
	require.NoError(s, s.db.View(func(tx *store.Tx) error {
		return tx.Rows("/", false, func(key string, row store.Row) error {
			if strings.Contains(key, id) || strings.Contains(string(row.JSON), id) {
				found = append(found, key)
			}
			return context.Cause(s.Context())
		})
	}))
	return found
}
