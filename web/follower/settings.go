package follower

import (
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/engine"
	"landfall/appliance/fleet"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/site"
	"landfall/appliance/notice"
	"landfall/appliance/settings"
	"landfall/store"
	"landfall/web/console"
	"landfall/web/operation"
)

// noRegistry implements site.Registry for an appliance without a registry of its own.
type noRegistry struct{}

func (noRegistry) Rules() (rules mirror.Sources, err error) { return rules, nil }
func (noRegistry) Changed() <-chan struct{}                 { return nil }
func (noRegistry) Local(string) string                      { return "" }

// openSettings opens the settings of the site, which loadAll reads, and the mirror rules of the
// copy. If the mirror rules can't be read, it warns, and the leader answers requests for them.
func (r *Reader) openSettings() {
	r.settings = settings.New(settings.Options{DB: r.DB, Secrets: r.secrets, Fixed: r.Config.FixedSettings(),
		Logger: r.Logger})
	rules, err := site.NewRules(site.RulesOptions{Files: r.Config.MirrorFiles(), DB: r.DB, Version: r.Version,
		Registry: noRegistry{}, Logger: r.Logger})
	if err != nil {
		r.Logger.Warn("This member can't show the mirror rules, and forwards requests for them to the leader.", "error",
			err)
		return
	}
	r.rules = rules
}

// isSetting reports whether a row is that of the settings or an import of mirror rules.
func isSetting(key string) bool {
	return strings.HasPrefix(key, settings.Prefix()) || strings.HasPrefix(key, site.ImportsPrefix())
}

// loadSettings reads the settings and the mirror rules again.
func (r *Reader) loadSettings() error {
	if err := r.settings.Load(); err != nil || r.rules == nil {
		return err
	}
	return r.rules.Load()
}

// needsOf reports whether this member has what the answers of an operation need, besides rows.
// Releases and mirror rules may come from the media of the leader, if there is a registry.
func (r *Reader) needsOf(o operation.Operation) func(echo.Context) bool {
	known := func(echo.Context) bool { return !r.settings.Lost() }
	switch o.ID {
	case "V2GetClusterDefaultConfig":
		return known
	case "v2ListSupportedOpenshiftVersions", "GetSupportedArchitectures":
		return func(c echo.Context) bool { return r.registry == nil && known(c) }
	case "getMirror", "explainMirror":
		return func(echo.Context) bool { return r.registry == nil && r.rules != nil && !r.lacksImports() }
	case "V2ListClusterManifests": // those of the system depend on the mirror rules
		return func(c echo.Context) bool { return c.QueryParam("include_system_generated") == "" }
	}
	return nil
}

// lacksImports reports whether an import of mirror rules is damaged here. The rules leave it out.
func (r *Reader) lacksImports() bool {
	return slices.ContainsFunc(r.DB.Damage(), func(found store.Damage) bool {
		return strings.HasPrefix(found.Key, site.ImportsPrefix())
	})
}

// ifHere returns the handler of an operation that gives the request to the leader if this member
// lacks what the answer needs.
func ifHere(here func(echo.Context) bool, handler echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !here(c) {
			return fleet.ErrNoLeader
		}
		return handler(c)
	}
}

// shownRules implements the reads of console.Mirror.
type shownRules struct {
	console.Mirror // nil: changes go to the leader
	rules          *site.Rules
	engine         *engine.Engine
}

// Model implements console.Mirror.
func (s shownRules) Model(level mirror.Level) (*site.Model, error) {
	return site.NewManager(s.rules, s.engine, nil).Model(level)
}

// Explain implements console.Mirror.
func (s shownRules) Explain(level mirror.Level, image string) (*mirror.Explanation, error) {
	return site.NewManager(s.rules, s.engine, nil).Explain(level, image)
}

// notices returns the notifications and webhooks in the rows of the copy.
func (r *Reader) notices() (*notice.Service, error) {
	box, err := r.Key.Box(notice.SecretsPurpose, nil)
	if err != nil {
		return nil, err
	}
	return notice.New(notice.Options{DB: r.DB, Secrets: box, Clock: r.Clock, Logger: r.Logger}), nil
}
