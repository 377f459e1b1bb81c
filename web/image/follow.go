package image

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"landfall/store"
)

// FollowInfraEnvs follows the changes of infra-envs until the context ends. It drops the images of
// deleted infra-envs, so that clients no longer receive them. It also drops the short codes of
// changed infra-envs, because they may have been revoked.
func (s *Service) FollowInfraEnvs(ctx context.Context, db *store.DB) error {
	const prefix = "/infra-envs/"
	for from := db.Revision(); ctx.Err() == nil; from = db.Revision() {
		watcher := db.Watch(ctx, from, prefix)
		for changes := range watcher.C() {
			for _, change := range changes {
				infraEnvID := strings.TrimPrefix(change.Key, prefix)
				if change.Deleted {
					s.DropInfraEnv(infraEnvID)
				} else {
					s.DropCodes(infraEnvID)
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow the changes of infra-envs: %w", err)
		}
	}
	return nil
}
