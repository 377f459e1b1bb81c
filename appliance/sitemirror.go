package appliance

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
	"landfall/store"
	"landfall/web/console"
	"landfall/web/problem"
)

// mirrorImports are the imports of mirror rules, by their names.
var mirrorImports = store.NewBucket[mirrorImport]("mirror-imports", 1)

type mirrorImport struct {
	Imported time.Time     `json:"imported"`
	Import   mirror.Import `json:"import"`
}

// siteMirror are the site's mirror rules as they are now: those of the configuration, and over them what was imported. It
// is what the engine asks, and what the console shows and changes.
type siteMirror struct {
	configured mirror.Sources
	db         *store.DB
	client     *mirror.Client
	clock      clockwork.Clock
	log        *slog.Logger
	changed    func(context.Context) // after the rules changed; may be nil

	importing sync.Mutex // one change of the rules at a time
	now       sync.RWMutex
	problem   string // why imports are left out, a sentence
}

func mirrorFiles(config Mirror) mirror.Files {
	return mirror.Files{RegistriesConf: config.RegistriesConf, MirrorSets: config.IDMSFiles, CABundle: config.CABundle}
}

// checkMirror finds what is wrong with the configuration's rules before anything is opened.
func checkMirror(config Mirror) error {
	_, err := mirror.Load(mirrorFiles(config))
	return err
}

// newSiteMirror reads the configuration's rules, which must be right, and the imports. Imports that don't fit together with
// a configuration that was changed meanwhile are left out, and said to be.
func newSiteMirror(config Mirror, db *store.DB, version string, logger *slog.Logger) (*siteMirror, error) {
	configured, err := mirror.Read(mirrorFiles(config))
	if err != nil {
		return nil, err
	}
	rules, err := mirror.Parse(configured)
	if err != nil {
		return nil, err
	}
	m := &siteMirror{configured: configured, db: db, clock: clockwork.NewRealClock(), log: logger}
	m.client = mirror.NewClient(rules, mirror.ClientOptions{UserAgent: "landfall/" + version})
	joined, err := m.joined(nil, "")
	if err != nil {
		m.problem = "What was imported is not used: " + err.Error() + ". Remove the import or change the configuration."
		logger.Error("Imported mirror rules are not used.", "error", err)
		return m, nil
	}
	m.client.Use(joined)
	return m, nil
}

// joined makes rules of the configuration and all imports, with one more under a name, or without the one of that name.
func (m *siteMirror) joined(added *mirror.Import, name string) (*mirror.Rules, error) {
	imports, err := m.imports()
	if err != nil {
		return nil, err
	}
	sources := m.configured
	for _, imported := range imports {
		if imported.Name != name {
			sources = sources.And(imported.Sources(imported.Name))
		}
	}
	if added != nil {
		sources = sources.And(added.Sources(name))
	}
	return mirror.Parse(sources)
}

type namedImport struct {
	mirror.Import
	Name     string
	Imported time.Time
}

// imports lists the imports, the oldest first: a later one goes over an earlier one.
func (m *siteMirror) imports() ([]namedImport, error) {
	var imports []namedImport
	err := m.db.View(func(tx *store.Tx) error {
		return mirrorImports.Each(tx, "", func(name string, value *mirrorImport) error {
			imports = append(imports, namedImport{value.Import, name, value.Imported})
			return nil
		})
	})
	slices.SortStableFunc(imports, func(a, b namedImport) int { return a.Imported.Compare(b.Imported) })
	return imports, err
}

// Import adds an import, or replaces the one of that name, and follows it from now on.
func (m *siteMirror) Import(ctx context.Context, name string, added *mirror.Import) (*console.MirrorModel, error) {
	if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, "/\x00\r\n") || len(name) > 128 {
		return nil, problem.BadRequest("%q can't be the name of an import; give one without slashes, such as that of the folder", name)
	}
	return m.change(ctx, name, added)
}

// Remove forgets an import.
func (m *siteMirror) Remove(ctx context.Context, name string) error {
	if err := m.db.View(func(tx *store.Tx) error {
		if !mirrorImports.Exists(tx, name) {
			return problem.NotFound("Nothing was imported under the name %q; landfall mirror show lists the imports.", name)
		}
		return nil
	}); err != nil {
		return err
	}
	_, err := m.change(ctx, name, nil)
	return err
}

func (m *siteMirror) change(ctx context.Context, name string, added *mirror.Import) (*console.MirrorModel, error) {
	m.importing.Lock()
	defer m.importing.Unlock()
	rules, err := m.joined(added, name)
	if err != nil {
		return nil, mirrorProblem(err)
	}
	if err := m.db.Update(ctx, func(tx *store.Tx) error {
		if added == nil {
			return mirrorImports.Delete(tx, name)
		}
		return mirrorImports.Put(tx, name, &mirrorImport{Imported: m.clock.Now().UTC(), Import: *added})
	}); err != nil {
		return nil, err
	}
	m.now.Lock()
	m.problem = ""
	m.now.Unlock()
	m.client.Use(rules)
	if added != nil {
		m.log.Info("Mirror rules were imported.", "name", name, "files", len(added.Files), "rules", len(rules.List()))
	} else {
		m.log.Info("Imported mirror rules were removed.", "name", name)
	}
	if m.changed != nil {
		m.changed(ctx)
	}
	return m.Model()
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

// Model shows the rules as they are.
func (m *siteMirror) Model() (*console.MirrorModel, error) {
	rules := m.rules()
	imports, err := m.imports()
	if err != nil {
		return nil, err
	}
	m.now.RLock()
	model := &console.MirrorModel{
		Rules: rules.List(), Holes: rules.Holes(), Catalogs: rules.CatalogSources(), Signatures: rules.Signatures(),
		Authorities: rules.Authorities(), Imports: []console.MirrorImport{}, Configured: []string{}, Problem: m.problem,
	}
	m.now.RUnlock()
	for _, docs := range [][]mirror.Document{m.configured.RegistriesConf, m.configured.MirrorSets, m.configured.CABundle} {
		for _, doc := range docs {
			model.Configured = append(model.Configured, doc.Name)
		}
	}
	for _, imported := range imports {
		shown := console.MirrorImport{Name: imported.Name, Imported: imported.Imported, Files: []console.MirrorFile{}, Ignored: imported.Ignored}
		for _, file := range imported.Files {
			shown.Files = append(shown.Files, console.MirrorFile{Name: file.Name, Kind: string(file.Kind), SizeBytes: len(file.Data)})
		}
		model.Imports = append(model.Imports, shown)
	}
	return model.Filled(), nil
}

// Explain says where an image is pulled from.
func (m *siteMirror) Explain(image string) (*mirror.Explanation, error) {
	explained, err := m.rules().Explain(image)
	if err != nil {
		return nil, problem.BadRequest("%s", sentenceCase(err.Error()))
	}
	return explained, nil
}

func sentenceCase(text string) string {
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func (m *siteMirror) rules() *mirror.Rules { return m.client.Rules() }

// RegistriesConf, ImageDigestSources, CABundle, Hosts and Empty are those of the rules now (see mirror.Rules).
func (m *siteMirror) RegistriesConf() []byte { return m.rules().RegistriesConf() }

// ImageDigestSources is that of the rules now.
func (m *siteMirror) ImageDigestSources() []mirror.ImageDigestSource {
	return m.rules().ImageDigestSources()
}

// CABundle is that of the rules now.
func (m *siteMirror) CABundle() []byte { return m.rules().CABundle() }

// Hosts are those of the rules now.
func (m *siteMirror) Hosts() []string { return m.rules().Hosts() }

// Manifests are those of the rules now.
func (m *siteMirror) Manifests(mirrorSets bool) ([]mirror.Manifest, error) {
	return m.rules().Manifests(mirrorSets)
}

// Empty tells whether there are rules now.
func (m *siteMirror) Empty() bool { return m.rules().Empty() }

// CatalogSources are the operator catalogs that the mirror holds.
func (m *siteMirror) CatalogSources() []mirror.CatalogSource { return m.rules().CatalogSources() }

// ImageTagSources is that of the rules now.
func (m *siteMirror) ImageTagSources() []mirror.ImageDigestSource { return m.rules().ImageTagSources() }

// Endpoints are those of the rules now.
func (m *siteMirror) Endpoints(ref name.Reference) []mirror.Endpoint { return m.rules().Endpoints(ref) }

// operatorCatalogs are the operator catalogs that the mirror holds, as a cluster is given them.
func (m *siteMirror) operatorCatalogs() []operator.Source {
	var documents [][]byte
	for _, object := range m.rules().Objects() {
		if object.Kind == mirror.KindCatalogSource {
			documents = append(documents, object.YAML)
		}
	}
	return operator.Sources(documents...)
}

// trustingTransport speaks with the site's web servers by the CAs that the rules have at the moment.
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
