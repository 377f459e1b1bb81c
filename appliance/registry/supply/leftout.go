package supply

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/registry"
	"landfall/store"
)

// eventLeftOut is the name of the event of a host that asks for an architecture that was not
// mirrored.
const eventLeftOut = "registry_architecture_missing"

// maxReported limits the pairs of hosts and images that are remembered as reported.
const maxReported = 1024

// LeftOut reports clients that ask for images whose architecture was not mirrored.
type LeftOut struct {
	db     *store.DB
	report func(context.Context, *models.Event) error
	log    *slog.Logger

	mu       sync.Mutex
	reported map[string]bool // by client and digest
}

// NewLeftOut returns a LeftOut that stores events with report.
func NewLeftOut(db *store.DB, report func(context.Context, *models.Event) error, log *slog.Logger) *LeftOut {
	return &LeftOut{db: db, report: report, log: log, reported: map[string]bool{}}
}

// Report logs that a client asked for an image, once. If the client is a host of the site, the host
// gets an event.
func (l *LeftOut) Report(ctx context.Context, client string, image *registry.LeftOutError) {
	if !l.isNew(client + " " + image.Digest) {
		return
	}
	l.log.WarnContext(ctx, "A client asked for an architecture that was not mirrored.", "client", client, "digest",
		image.Digest, "architecture", image.Architecture)
	hosts, err := Hosts(l.db)
	host := hosts[client]
	if host != nil {
		err = l.report(context.WithoutCancel(ctx), eventOf(host, image))
	}
	if err != nil {
		l.log.ErrorContext(ctx, "The event of a host could not be stored.", "client", client, "error", err)
	}
}

func (l *LeftOut) isNew(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reported[key] {
		return false
	}
	if len(l.reported) >= maxReported {
		clear(l.reported)
	}
	l.reported[key] = true
	return true
}

func eventOf(host *inventory.Host, image *registry.LeftOutError) *models.Event {
	text := fmt.Sprintf("Host %s can't pull an image from the appliance's registry: %s.", host.Name(), image.Error())
	return &models.Event{Name: eventLeftOut, Category: models.EventCategoryUser, Message: &text,
		Severity: conv.Pointer(models.EventSeverityWarning), HostID: host.Record.ID,
		InfraEnvID: &host.Record.InfraEnvID, ClusterID: host.Record.ClusterID}
}
