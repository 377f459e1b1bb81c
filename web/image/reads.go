package image

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/fault"
	"landfall/web/image/progress"
)

// Reads reports the reads of an infra-env's images, also those at other members of a fleet; the
// read with the most recent byte comes first.
func (s *Service) Reads(ctx context.Context, infraEnvID string) ([]progress.Report, error) {
	own, err := s.ownReads(infraEnvID)
	if err != nil {
		return nil, err
	}
	all := append(own, s.others.reads(ctx)[infraEnvID]...)
	slices.SortStableFunc(all, progress.Report.Compare)
	return all, nil
}

// OwnReads reports all reads of images of this machine, by the infra-envs.
func (s *Service) OwnReads() (map[string][]progress.Report, error) {
	all := make(map[string][]progress.Report)
	for _, id := range s.options.Progress.InfraEnvs() {
		reports, err := s.ownReads(id)
		if fault.KindOf(err) == fault.NotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		all[id] = reports
	}
	return all, nil
}

func (s *Service) ownReads(infraEnvID string) ([]progress.Report, error) {
	registrations, err := s.options.Source.Registrations(infraEnvID)
	if err != nil {
		return nil, err
	}
	return s.options.Progress.Reads(infraEnvID, registrations...), nil
}

// othersAge is the age at which the other members are asked again.
const othersAge = time.Second

// others knows the reads at other members of a fleet.
type others struct {
	ask    func(context.Context) [][]byte // nil: there are none
	clock  clockwork.Clock
	logger *slog.Logger

	mu    sync.Mutex
	asked time.Time
	known map[string][]progress.Report
}

// reads returns the reads at other members, by the infra-envs.
func (o *others) reads(ctx context.Context) map[string][]progress.Report {
	if o.ask == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.asked.IsZero() && o.clock.Since(o.asked) < othersAge {
		return o.known
	}
	o.asked, o.known = o.clock.Now(), make(map[string][]progress.Report)
	for _, answer := range o.ask(ctx) {
		var of map[string][]progress.Report
		if err := json.Unmarshal(answer, &of); err != nil {
			o.logger.WarnContext(ctx, "The reads of images at another member can't be read.", "error", err)
			continue
		}
		for id, reports := range of {
			o.known[id] = append(o.known[id], reports...)
		}
	}
	if ctx.Err() != nil { // the client has gone, so the others may not have been asked to the end
		o.asked = time.Time{}
	}
	return o.known
}
