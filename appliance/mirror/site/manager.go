package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/sentence"
	"landfall/store"
)

// Manager shows and changes the mirror rules, for the console and for the Kubernetes controllers.
type Manager struct {
	rules  *Rules
	db     *store.DB
	engine *engine.Engine
	wake   func()
	log    *slog.Logger
}

// NewManager returns a Manager of rules. After each change of the rules it calls wake, which may be
// nil.
func NewManager(rules *Rules, e *engine.Engine, wake func()) *Manager {
	return &Manager{rules: rules, db: rules.db, engine: e, wake: wake, log: rules.log}
}

// Import adds an import to a level and applies it. It replaces an import of the same name.
func (m *Manager) Import(ctx context.Context, level mirror.Level, name string, added *mirror.Import) error {
	if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, "/\x00\r\n") || len(name) > 128 {
		return fault.New(fault.Invalid, "%q can't be the name of an import; use a name without slashes, such as "+
			"that of the directory", name)
	}
	if err := m.checkLevel(level); err != nil {
		return err
	}
	return m.change(ctx, level, name, added)
}

// Imported returns the import of a level and name, or nil if there is none.
func (m *Manager) Imported(level mirror.Level, name string) (*mirror.Import, error) {
	return m.rules.find(level, name)
}

// Rules returns the rules of a level.
func (m *Manager) Rules(level mirror.Level) *mirror.Rules { return m.rules.At(level) }

// Remove removes an import.
func (m *Manager) Remove(ctx context.Context, level mirror.Level, name string) error {
	held, err := m.rules.find(level, name)
	if err != nil {
		return err
	}
	if held == nil {
		return fault.New(fault.NotFound, "The %s has no import with the name %q; landfall mirror show lists the "+
			"imports.", level, name)
	}
	return m.change(ctx, level, name, nil)
}

// SetMirror stores rules as the import of a level and name, or removes this import if rules is nil.
// It does nothing if the files are unchanged, because each change rebuilds images.
func (m *Manager) SetMirror(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error {
	held, err := m.rules.find(level, name)
	switch {
	case err != nil:
		return err
	case held == nil && rules == nil, held != nil && rules != nil && reflect.DeepEqual(held.Files, rules.Files):
		return nil
	case rules == nil:
		return m.Remove(ctx, level, name)
	}
	return m.Import(ctx, level, name, rules)
}

func (m *Manager) change(ctx context.Context, level mirror.Level, name string, added *mirror.Import) error {
	if err := m.rules.change(ctx, level, name, added); err != nil {
		return err
	}
	m.engine.RefreshImages(ctx, level)
	m.engine.RefreshOperators(ctx)
	if m.wake != nil {
		m.wake()
	}
	return nil
}

// removeAll removes the imports of an object that was deleted.
func (m *Manager) removeAll(ctx context.Context, deleted mirror.Level) error {
	imports, err := m.rules.Imports()
	if err != nil {
		return err
	}
	for _, imported := range imports {
		if imported.Level == deleted {
			if err := m.change(ctx, deleted, imported.Name, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// FollowDeletions removes the imports of clusters and infra-envs that are deleted, until the
// context ends.
func (m *Manager) FollowDeletions(ctx context.Context) error {
	levels := map[string]func(id string) mirror.Level{
		"/clusters/":   func(id string) mirror.Level { return mirror.Level{Cluster: id} },
		"/infra-envs/": func(id string) mirror.Level { return mirror.Level{InfraEnv: id} },
	}
	prefixes := slices.Collect(maps.Keys(levels))
	for from := m.db.Revision(); ctx.Err() == nil; from = m.db.Revision() {
		watcher := m.db.Watch(ctx, from, prefixes...)
		for changes := range watcher.C() {
			for _, change := range changes {
				for prefix, level := range levels {
					id, ok := strings.CutPrefix(change.Key, prefix)
					if !ok || !change.Deleted {
						continue
					}
					if err := m.removeAll(ctx, level(id)); err != nil && ctx.Err() == nil {
						m.log.Warn("The mirror rules of a deleted object could not be removed.", "level", level(id),
							"error", err)
					}
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow deletions: %w", err)
		}
	}
	return nil
}

// FollowRegistry applies the rules of the appliance's registry whenever its content changes, until
// the context ends. Each time, it calls applied.
func (m *Manager) FollowRegistry(ctx context.Context, applied func()) error {
	for {
		next := m.rules.registry.Changed()
		changed, err := m.rules.refresh()
		if err != nil && ctx.Err() == nil {
			m.log.Error("The mirror rules of the appliance's registry could not be applied.", "error", err)
		}
		if changed {
			m.log.Info("The mirror rules follow the media of the appliance's registry.", "rules",
				len(m.rules.At(mirror.Level{}).List()))
			m.engine.RefreshImages(ctx, mirror.Level{})
			m.engine.RefreshOperators(ctx)
			if m.wake != nil {
				m.wake()
			}
		}
		applied()
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// Read creates an import from an uploaded file.
func (*Manager) Read(name string, content io.Reader) (*mirror.Import, error) {
	return mirror.Collect(name, content)
}

// ReadFiles creates an import from the uploaded files of a directory.
func (*Manager) ReadFiles(name string, files []mirror.Document) (*mirror.Import, error) {
	return mirror.CollectFiles(name, files)
}

// Model describes the mirror rules of a level, including the rules of lower levels.
type Model struct {
	mirror.Level
	Rules       []mirror.Rule          `json:"rules"`
	Holes       []mirror.Hole          `json:"holes"`
	Catalogs    []mirror.CatalogSource `json:"catalogs"`
	Signatures  []string               `json:"signatures"`  // digests of releases
	Authorities []mirror.Authority     `json:"authorities"` // CAs of the CA bundle
	// Imports lists the imports of all levels, the oldest first. A later import overrides an
	// earlier one.
	Imports    []Import `json:"imports"`
	Configured []string `json:"configured"` // files that the configuration names
	Problem    string   `json:"problem,omitempty"`
}

// Import describes one import.
type Import struct {
	mirror.Level
	Name     string           `json:"name"`
	Imported time.Time        `json:"imported"`
	Files    []File           `json:"files"`
	Ignored  []mirror.Ignored `json:"ignored"`
}

// File describes a file of an import.
type File struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	SizeBytes int    `json:"size_bytes"`
}

// Model returns the rules of a level.
func (m *Manager) Model(level mirror.Level) (*Model, error) {
	if err := m.checkLevel(level); err != nil {
		return nil, err
	}
	rules := m.rules.At(level)
	imports, err := m.rules.Imports()
	if err != nil {
		return nil, err
	}
	model := &Model{
		Level: level, Rules: orEmpty(rules.List()), Holes: orEmpty(rules.Holes()),
		Catalogs: orEmpty(rules.CatalogSources()), Signatures: orEmpty(rules.Signatures()),
		Authorities: orEmpty(rules.Authorities()), Imports: []Import{}, Configured: []string{},
		Problem: m.rules.problemsAt(level),
	}
	configured := m.rules.configured
	for _, docs := range [][]mirror.Document{configured.RegistriesConf, configured.MirrorSets, configured.CABundle} {
		for _, doc := range docs {
			model.Configured = append(model.Configured, doc.Name)
		}
	}
	for _, imported := range imports {
		shown := Import{Level: imported.Level, Name: imported.Name, Imported: imported.Imported,
			Files: []File{}, Ignored: imported.Ignored}
		for _, file := range imported.Files {
			shown.Files = append(shown.Files, File{Name: file.Name, Kind: string(file.Kind), SizeBytes: len(file.Data)})
		}
		model.Imports = append(model.Imports, shown)
	}
	return model, nil
}

// orEmpty returns an empty list for nil, which JSON would write as null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Explain reports from where an image is pulled at a level.
func (m *Manager) Explain(level mirror.Level, image string) (*mirror.Explanation, error) {
	if err := m.checkLevel(level); err != nil {
		return nil, err
	}
	explained, err := m.rules.At(level).Explain(image)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s", sentence.Close(err.Error()))
	}
	return explained, nil
}

// Later returns the objects of the mirror rules that a cluster can receive only after its
// installation, as YAML documents.
func (m *Manager) Later(clusterID string) ([]byte, error) { return m.engine.MirrorLater(clusterID) }

// checkLevel returns an error if a level names both a cluster and an infra-env, or an object that
// does not exist.
func (m *Manager) checkLevel(level mirror.Level) (err error) {
	switch {
	case level.Cluster != "" && level.InfraEnv != "":
		return fault.New(fault.Invalid, "Name a cluster or an infra-env, not both.")
	case level.Cluster != "":
		_, err = m.engine.Cluster(level.Cluster)
	case level.InfraEnv != "":
		_, err = m.engine.InfraEnv(level.InfraEnv)
	}
	return err
}
