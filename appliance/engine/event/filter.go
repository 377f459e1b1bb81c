package event

import (
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"

	"landfall/store"
)

// Filter selects events. An empty field selects all events.
type Filter struct {
	ClusterID, InfraEnvID string
	HostIDs               []string
	Severities            []string
	Categories            []string // an empty list means user
	Message               string   // a part of the message; case is ignored
	// ClusterLevel selects the events of the cluster itself. DeletedHosts selects the events of
	// deleted hosts. An event is selected if HostIDs, ClusterLevel or DeletedHosts selects it.
	ClusterLevel, DeletedHosts bool
	Descending                 bool
	Limit, Offset              int // a Limit of 0 selects all events
}

// Page is a page of events. Total and BySeverity are counts of all selected events. BySeverity
// ignores the filter's severities.
type Page struct {
	Events     []*models.Event
	Total      int
	BySeverity map[string]int
}

// Select returns a page of the selected events, the oldest first unless the filter is descending.
// HostExists reports whether the host with a key exists.
func (x *Index) Select(tx *store.Tx, filter Filter, hostExists func(key string) bool) (*Page, error) {
	var all []*models.Event
	deleted := func(ev *models.Event) bool {
		return ev.InfraEnvID == nil || !hostExists(ev.InfraEnvID.String()+"/"+ev.HostID.String())
	}
	keep := func(_ string, ev *models.Event) error {
		if filter.matches(ev, deleted) {
			all = append(all, ev)
		}
		return nil
	}
	subject := filter.subject()
	if subject == "" {
		if err := Rows.Each(tx, "", keep); err != nil {
			return nil, err
		}
		return filter.page(all), nil
	}
	ids, err := x.Of(tx, subject)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		err := Rows.Each(tx, id.String(), func(key string, ev *models.Event) error {
			_ = keep(key, ev)
			return store.ErrStop
		})
		if err != nil {
			return nil, err
		}
	}
	return filter.page(all), nil
}

// page returns the requested page of the selected events.
func (f *Filter) page(all []*models.Event) *Page {
	page := &Page{BySeverity: make(map[string]int)}
	for _, ev := range all {
		page.BySeverity[*ev.Severity]++
	}
	if len(f.Severities) > 0 {
		all = slices.DeleteFunc(all, func(ev *models.Event) bool {
			return !slices.Contains(f.Severities, *ev.Severity)
		})
	}
	page.Total = len(all)
	if f.Descending {
		slices.Reverse(all)
	}
	all = all[min(f.Offset, len(all)):]
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	page.Events = all
	return page
}

// subject returns the id in the filter that has the fewest events in the index, or "" if the index
// does not help.
func (f *Filter) subject() string {
	switch {
	case len(f.HostIDs) == 1 && !f.ClusterLevel && !f.DeletedHosts:
		return f.HostIDs[0]
	case f.InfraEnvID != "":
		return f.InfraEnvID
	}
	return f.ClusterID
}

// matchesHost reports whether HostIDs, ClusterLevel or DeletedHosts select the event.
func (f *Filter) matchesHost(ev *models.Event, deleted func(*models.Event) bool) bool {
	if ev.HostID == nil {
		return f.ClusterLevel
	}
	return slices.Contains(f.HostIDs, ev.HostID.String()) || f.DeletedHosts && deleted(ev)
}

// matches reports whether the filter selects the event. It ignores the severity, because a page
// counts all severities.
func (f *Filter) matches(ev *models.Event, deleted func(*models.Event) bool) bool {
	is := func(id *strfmt.UUID, want string) bool { return want == "" || id != nil && id.String() == want }
	if !is(ev.ClusterID, f.ClusterID) || !is(ev.InfraEnvID, f.InfraEnvID) {
		return false
	}
	if byHost := len(f.HostIDs) > 0 || f.ClusterLevel || f.DeletedHosts; byHost && !f.matchesHost(ev, deleted) {
		return false
	}
	if len(f.Categories) == 0 && ev.Category != models.EventCategoryUser || len(f.Categories) > 0 &&
		!slices.Contains(f.Categories, ev.Category) {
		return false
	}
	return f.Message == "" || strings.Contains(strings.ToLower(*ev.Message), strings.ToLower(f.Message))
}
