package backup

import "context"

// Look writes a backup if one is due.
func (s *Service) Look(ctx context.Context) error { return s.backUp(ctx) }

// Prune removes old backups.
func (s *Service) Prune(ctx context.Context, of *Repository) { s.prune(ctx, of) }

// Keep sets the number of backups that stay.
func (s *Service) Keep(count int) { s.Schedule.Keep = count }
