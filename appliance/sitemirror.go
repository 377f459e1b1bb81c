package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall/appliance/config"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/store"
	"landfall/web/api"
	"landfall/web/console"
	"landfall/web/problem"
)

// mirrorImports are the imports of mirror rules, by level and name: see importKey.
var mirrorImports = store.NewBucket[mirrorImport]("mirror-imports", 1)

type mirrorImport struct {
	Level    mirror.Level  `json:"level"`
	Imported time.Time     `json:"imported"`
	Import   mirror.Import `json:"import"`
}

// importKey is the name of an import of the appliance's, and has the object before it otherwise;
// names have no slashes.
func importKey(level mirror.Level, name string) string {
	switch {
	case level.Cluster != "":
		return "clusters/" + level.Cluster + "/" + name
	case level.InfraEnv != "":
		return "infra-envs/" + level.InfraEnv + "/" + name
	}
	return name
}

// siteMirror are the site's mirror rules as they are now: those of the configuration and, over
// them, what was imported for the appliance, for infra-envs and for clusters. It is what the engine
// asks, and what the console shows and changes.
type siteMirror struct {
	configured mirror.Sources
	db         *store.DB
	client     *mirror.Client // of the appliance's rules
	options    mirror.ClientOptions
	releases   *release.Library // set before the first question of the engine
	clock      clockwork.Clock
	log        *slog.Logger
	engine     *engine.Engine                      // set before the first question of the console
	exists     func(mirror.Level) error            // whether there is such a cluster or infra-env, fit for problem.From
	changed    func(context.Context, mirror.Level) // after the rules of a level changed; may be nil

	importing sync.Mutex // one change of the rules at a time
	now       sync.RWMutex
	problem   string                          // why imports are left out, a sentence
	own       map[mirror.Level]*mirror.Rules  // what was imported for one object alone
	layered   map[mirror.Level]*mirror.Client // made when first asked for, until rules change
}

func mirrorFiles(config config.Mirror) mirror.Files {
	return mirror.Files{RegistriesConf: config.RegistriesConf, MirrorSets: config.IDMSFiles, CABundle: config.CABundle}
}

// checkMirror finds what is wrong with the configuration's rules before anything is opened.
func checkMirror(config config.Mirror) error {
	_, err := mirror.Load(mirrorFiles(config))
	return err
}

// newSiteMirror reads the configuration's rules, which must be right, and the imports. Imports that
// don't fit together with a configuration that was changed meanwhile are left out, and said to be.
func newSiteMirror(config config.Mirror, db *store.DB, version string, logger *slog.Logger) (*siteMirror, error) {
	configured, err := mirror.Read(mirrorFiles(config))
	if err != nil {
		return nil, err
	}
	rules, err := mirror.Parse(configured)
	if err != nil {
		return nil, err
	}
	m := &siteMirror{configured: configured, db: db, clock: clockwork.NewRealClock(), log: logger,
		options: mirror.ClientOptions{UserAgent: "landfall/" + version}}
	m.client = mirror.NewClient(rules, m.options)
	imports, err := m.imports()
	if err != nil {
		return nil, err
	}
	m.own, m.layered = map[mirror.Level]*mirror.Rules{}, map[mirror.Level]*mirror.Client{}
	for _, level := range append([]mirror.Level{{}}, levelsOf(imports)...) {
		rules, err := m.joined(imports, level)
		switch {
		case err != nil:
			m.problem = "What was imported is not used: " + err.Error() +
				". Remove the import or change the configuration."
			logger.Error("Imported mirror rules are not used.", "level", level, "error", err)
		case level == mirror.Level{}:
			m.client.Use(rules)
		default:
			m.own[level] = rules
		}
	}
	return m, nil
}

// levelsOf lists the clusters and infra-envs that have imports of their own.
func levelsOf(imports []namedImport) []mirror.Level {
	var levels []mirror.Level
	for _, imported := range imports {
		if imported.Level != (mirror.Level{}) && !slices.Contains(levels, imported.Level) {
			levels = append(levels, imported.Level)
		}
	}
	return levels
}

// joined makes rules of the imports of one level; those of the appliance are joined with the
// configuration's.
func (m *siteMirror) joined(imports []namedImport, level mirror.Level) (*mirror.Rules, error) {
	var sources mirror.Sources
	if level == (mirror.Level{}) {
		sources = m.configured
	}
	for _, imported := range imports {
		if imported.Level == level {
			sources = sources.And(imported.Sources(imported.Name))
		}
	}
	return mirror.Parse(sources)
}

type namedImport struct {
	mirror.Import
	Level    mirror.Level
	Name     string
	Imported time.Time
}

// imports lists the imports, the oldest first: a later one goes over an earlier one of the same
// level.
func (m *siteMirror) imports() ([]namedImport, error) {
	var imports []namedImport
	err := m.db.View(func(tx *store.Tx) error {
		return mirrorImports.Each(tx, "", func(key string, value *mirrorImport) error {
			imports = append(imports, namedImport{value.Import, value.Level, path.Base(key), value.Imported})
			return nil
		})
	})
	slices.SortStableFunc(imports, func(a, b namedImport) int { return a.Imported.Compare(b.Imported) })
	return imports, err
}

// Import adds an import to a level, or replaces the one of that name, and follows it from now on.
func (m *siteMirror) Import(ctx context.Context, level mirror.Level, name string,
	added *mirror.Import) (*console.MirrorModel, error) {
	if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, "/\x00\r\n") || len(name) > 128 {
		return nil,
			problem.BadRequest("%q can't be the name of an import; give one without slashes, such as that of the "+
				"folder", name)
	}
	if err := m.exists(level); err != nil {
		return nil, err
	}
	if err := m.change(ctx, level, name, added); err != nil {
		return nil, err
	}
	return m.Model(level)
}

// Remove forgets an import.
func (m *siteMirror) Remove(ctx context.Context, level mirror.Level, name string) error {
	if err := m.db.View(func(tx *store.Tx) error {
		if !mirrorImports.Exists(tx, importKey(level, name)) {
			return problem.NotFound("Nothing was imported for the %s under the name %q; landfall mirror show lists "+
				"the imports.", level, name)
		}
		return nil
	}); err != nil {
		return err
	}
	return m.change(ctx, level, name, nil)
}

func (m *siteMirror) change(ctx context.Context, level mirror.Level, name string, added *mirror.Import) error {
	m.importing.Lock()
	defer m.importing.Unlock()
	imports, err := m.imports()
	if err != nil {
		return err
	}
	now := m.clock.Now().UTC()
	imports = slices.DeleteFunc(imports, func(i namedImport) bool { return i.Level == level && i.Name == name })
	if added != nil {
		imports = append(imports, namedImport{*added, level, name, now})
	}
	rules, err := m.joined(imports, level)
	if err != nil {
		return mirrorProblem(err)
	}
	if err := m.db.Update(ctx, func(tx *store.Tx) error {
		if added == nil {
			return mirrorImports.Delete(tx, importKey(level, name))
		}
		return mirrorImports.Put(tx, importKey(level, name), &mirrorImport{Level: level, Imported: now, Import: *added})
	}); err != nil {
		return err
	}
	m.use(level, rules, slices.Contains(levelsOf(imports), level))
	if added != nil {
		m.log.Info("Mirror rules were imported.", "level", level, "name", name, "files", len(added.Files), "rules",
			len(rules.List()))
	} else {
		m.log.Info("Imported mirror rules were removed.", "level", level, "name", name)
	}
	if m.changed != nil {
		m.changed(ctx, level)
	}
	return nil
}

// use has a level follow other rules from now on; own tells whether there are any of one object.
func (m *siteMirror) use(level mirror.Level, rules *mirror.Rules, own bool) {
	m.now.Lock()
	defer m.now.Unlock()
	m.problem = ""
	switch {
	case level == mirror.Level{}:
		m.client.Use(rules)
	case own:
		m.own[level] = rules
	default:
		delete(m.own, level)
	}
	for _, client := range m.layered {
		client.CloseIdleConnections()
	}
	clear(m.layered)
}

// at returns the client that follows the rules of a level: the appliance's, over them the
// infra-env's, over them the cluster's.
func (m *siteMirror) at(level mirror.Level) *mirror.Client {
	m.now.Lock()
	defer m.now.Unlock()
	infraEnv, cluster := m.own[mirror.Level{InfraEnv: level.InfraEnv}], m.own[mirror.Level{Cluster: level.Cluster}]
	if level.InfraEnv == "" || infraEnv == nil {
		level.InfraEnv, infraEnv = "", nil
	}
	if level.Cluster == "" || cluster == nil {
		level.Cluster, cluster = "", nil
	}
	if level == (mirror.Level{}) {
		return m.client
	}
	client := m.layered[level]
	if client == nil {
		rules, err := mirror.Layered(m.client.Rules(), infraEnv, cluster)
		if err != nil { // each of them was read by itself
			m.log.Error("Mirror rules can't be joined, and those of the appliance alone are used.", "level", level,
				"error", err)
			return m.client
		}
		client = mirror.NewClient(rules, m.options)
		m.layered[level] = client
	}
	return client
}

// access is how the engine reaches images at a level.
func (m *siteMirror) access(level mirror.Level) engine.ImageAccess {
	client := m.at(level)
	releases := m.releases.Through(client)
	return engine.ImageAccess{Mirror: client.Rules(), Releases: releases, CatalogReader: releases,
		Catalogs: operatorCatalogs(client.Rules())}
}

// forget removes the imports of an object that is gone.
func (m *siteMirror) forget(ctx context.Context, gone mirror.Level) error {
	imports, err := m.imports()
	if err != nil {
		return err
	}
	for _, imported := range imports {
		if imported.Level == gone {
			if err := m.change(ctx, gone, imported.Name, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// followDeletions removes the imports of clusters and infra-envs that are deleted.
func (m *siteMirror) followDeletions(ctx context.Context) error {
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
					if err := m.forget(ctx, level(id)); err != nil && ctx.Err() == nil {
						m.log.Warn("The mirror rules of what was deleted could not be removed.", "level", level(id),
							"error", err)
					}
				}
			}
		}
		if err := watcher.Err(); !errors.Is(err, store.ErrCompacted) && ctx.Err() == nil {
			return fmt.Errorf("follow what is deleted: %w", err)
		}
	}
	return nil
}

// mirrorProblem makes a wrong input an answer of 422.
func mirrorProblem(err error) error {
	if input, ok := errors.AsType[*mirror.InputError](err); ok {
		return &problem.Error{Status: http.StatusUnprocessableEntity, Reason: input.Error(), Err: err}
	}
	return err
}

// Read makes an import of an uploaded file.
func (m *siteMirror) Read(name string, content io.Reader) (*mirror.Import, error) {
	got, err := mirror.Collect(name, content)
	return got, mirrorProblem(err)
}

// ReadFiles makes an import of uploaded files of a folder.
func (m *siteMirror) ReadFiles(name string, files []mirror.Document) (*mirror.Import, error) {
	got, err := mirror.CollectFiles(name, files)
	return got, mirrorProblem(err)
}

// Model shows the rules of a level as they are.
func (m *siteMirror) Model(level mirror.Level) (*console.MirrorModel, error) {
	if err := m.exists(level); err != nil {
		return nil, err
	}
	rules := m.at(level).Rules()
	imports, err := m.imports()
	if err != nil {
		return nil, err
	}
	m.now.RLock()
	model := &console.MirrorModel{
		Level: level, Rules: rules.List(), Holes: rules.Holes(), Catalogs: rules.CatalogSources(),
		Signatures:  rules.Signatures(),
		Authorities: rules.Authorities(), Imports: []console.MirrorImport{}, Configured: []string{}, Problem: m.problem,
	}
	m.now.RUnlock()
	for _, docs := range [][]mirror.Document{m.configured.RegistriesConf, m.configured.MirrorSets,
		m.configured.CABundle} {
		for _, doc := range docs {
			model.Configured = append(model.Configured, doc.Name)
		}
	}
	for _, imported := range imports {
		shown := console.MirrorImport{Level: imported.Level, Name: imported.Name, Imported: imported.Imported,
			Files: []console.MirrorFile{}, Ignored: imported.Ignored}
		for _, file := range imported.Files {
			shown.Files = append(shown.Files, console.MirrorFile{Name: file.Name, Kind: string(file.Kind),
				SizeBytes: len(file.Data)})
		}
		model.Imports = append(model.Imports, shown)
	}
	return model.Filled(), nil
}

// Explain says where an image is pulled from at a level.
func (m *siteMirror) Explain(level mirror.Level, image string) (*mirror.Explanation, error) {
	if err := m.exists(level); err != nil {
		return nil, err
	}
	explained, err := m.at(level).Rules().Explain(image)
	if err != nil {
		return nil, problem.BadRequest("%s", sentenceCase(err.Error()))
	}
	return explained, nil
}

// Later is what a cluster can only be given of its mirror's when it runs.
func (m *siteMirror) Later(clusterID string) ([]byte, error) {
	documents, err := m.engine.MirrorLater(clusterID)
	return documents, api.Problem(err)
}

func sentenceCase(text string) string {
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// CABundle has the CAs that the appliance itself trusts now.
func (m *siteMirror) CABundle() []byte { return m.client.Rules().CABundle() }

// levelExists says that there is no such cluster or infra-env, or that both are named.
func levelExists(e *engine.Engine, level mirror.Level) error {
	var err error
	switch {
	case level.Cluster != "" && level.InfraEnv != "":
		return problem.BadRequest("Name a cluster or an infra-env, not both.")
	case level.Cluster != "":
		_, err = e.Cluster(level.Cluster)
	case level.InfraEnv != "":
		_, err = e.InfraEnv(level.InfraEnv)
	}
	return api.Problem(err)
}

// operatorCatalogs are the operator catalogs that came with rules, as a cluster is given them.
func operatorCatalogs(rules *mirror.Rules) []operator.Source {
	var documents [][]byte
	for _, object := range rules.Objects() {
		if object.Kind == mirror.KindCatalogSource {
			documents = append(documents, object.YAML)
		}
	}
	return operator.Sources(documents...)
}

// trustingTransport speaks with the site's web servers by the CAs that the rules have at the
// moment.
type trustingTransport struct {
	bundle func() []byte
	make   func(bundle []byte) *http.Transport

	mu   sync.Mutex
	last string
	now  *http.Transport
}

// RoundTrip sends a request with the trust of now.
func (t *trustingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current().RoundTrip(r)
}

func (t *trustingTransport) current() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bundle := t.bundle(); t.now == nil || string(bundle) != t.last {
		if t.now != nil {
			t.now.CloseIdleConnections()
		}
		t.last, t.now = string(bundle), t.make(bundle)
	}
	return t.now
}
