// Package site holds the mirror rules of an appliance and proves that the site's mirror holds the
// releases.
//
// [Rules] and [Prover] need no engine; the engine calls them to find the places of images and to
// check that the mirror holds a release. [Manager] and [Proofs] need an engine. They carry out the
// requests of people and of the Kubernetes API.
package site

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/egress"
	"landfall/appliance/engine"
	"landfall/appliance/engine/operator"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
	"landfall/store"
)

// importRows stores the imports of mirror rules by level and name; see importKey.
var importRows = store.NewBucket[importRow]("mirror-imports", 1)

type importRow struct {
	Level    mirror.Level  `json:"level"`
	Imported time.Time     `json:"imported"`
	Import   mirror.Import `json:"import"`
}

// importKey returns the key of an import. It is the name for an import of the appliance; otherwise
// the object precedes the name. Names contain no slashes.
func importKey(level mirror.Level, name string) string {
	switch {
	case level.Cluster != "":
		return "clusters/" + level.Cluster + "/" + name
	case level.InfraEnv != "":
		return "infra-envs/" + level.InfraEnv + "/" + name
	}
	return name
}

// RulesOptions configures [NewRules].
type RulesOptions struct {
	Files   mirror.Files // the rules of the configuration
	DB      *store.DB
	Version string // of the program, for the User-Agent
	Logger  *slog.Logger
	// Egress decides which registries and token servers may be reached; nil allows all.
	Egress *egress.Rules
	// Registry is the appliance's own registry.
	Registry Registry
}

// Registry is the appliance's own registry, which may be absent.
type Registry interface {
	// Rules returns the mirror rules for its content. They change with it.
	Rules() (mirror.Sources, error)
	// Changed returns a channel that is closed at the next change of the content, or nil.
	Changed() <-chan struct{}
	// Local returns the address of the listener for the name (host:port) of the registry, and ""
	// for other names.
	Local(name string) string
}

// Rules holds the current mirror rules: those of the configuration, overridden by the imports of
// the appliance, of infra-envs and of clusters.
type Rules struct {
	configured mirror.Sources
	registry   Registry
	db         *store.DB
	client     *mirror.Client // uses the rules of the appliance
	options    mirror.ClientOptions
	clock      clockwork.Clock
	log        *slog.Logger

	changes  sync.Mutex // serializes changes of the rules
	mu       sync.RWMutex
	problems map[mirror.Level]string         // why the imports of a level are not used, as a sentence
	own      map[mirror.Level]*mirror.Rules  // imports of each cluster and infra-env
	layered  map[mirror.Level]*mirror.Client // created on first use, dropped when rules change
}

// NewRules reads the rules of the configuration, which must be valid, and the imports. It omits
// imports that contradict the configuration, and reports this in [Model].Problem.
func NewRules(options RulesOptions) (*Rules, error) {
	configured, err := mirror.Read(options.Files)
	if err != nil {
		return nil, err
	}
	rules, err := mirror.Parse(configured)
	if err != nil {
		return nil, err
	}
	r := &Rules{configured: configured, db: options.DB, clock: clockwork.NewRealClock(), log: options.Logger,
		options: mirror.ClientOptions{UserAgent: "landfall/" + options.Version, Egress: options.Egress,
			Local: options.Registry.Local},
		registry: options.Registry, layered: map[mirror.Level]*mirror.Client{}}
	r.client = mirror.NewClient(rules, r.options)
	if err := r.Load(); err != nil {
		return nil, err
	}
	return r, nil
}

// Load reads the imports. A follower of a fleet calls it after each change of their rows.
func (r *Rules) Load() error {
	r.changes.Lock()
	defer r.changes.Unlock()
	imports, err := r.Imports()
	if err != nil {
		return err
	}
	site, err := mirror.Parse(r.configured) // without imports that are not used
	if err != nil {
		return err
	}
	own, problems := map[mirror.Level]*mirror.Rules{}, map[mirror.Level]string{}
	for _, level := range append([]mirror.Level{{}}, levelsOf(imports)...) {
		rules, err := r.parse(imports, level)
		switch {
		case err != nil:
			problems[level] = "The imported rules are not used: " + err.Error() +
				". Remove the import or change the configuration."
			r.log.Error("Imported mirror rules are not used.", "level", level, "error", err)
		case level == mirror.Level{}:
			site = rules
		default:
			own[level] = rules
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own, r.problems = own, problems
	r.client.Use(site)
	r.dropLayered()
	return nil
}

// ImportsPrefix returns the beginning of the keys of the imports' rows.
func ImportsPrefix() string { return importRows.Prefix() }

// levelsOf lists the clusters and infra-envs that have imports.
func levelsOf(imports []NamedImport) []mirror.Level {
	var levels []mirror.Level
	for _, imported := range imports {
		if imported.Level != (mirror.Level{}) && !slices.Contains(levels, imported.Level) {
			levels = append(levels, imported.Level)
		}
	}
	return levels
}

// parse parses the imports of a level. At the appliance's level it includes the configuration.
func (r *Rules) parse(imports []NamedImport, level mirror.Level) (*mirror.Rules, error) {
	var sources mirror.Sources
	if level == (mirror.Level{}) {
		sources = r.ownSources()
	}
	for _, imported := range imports {
		if imported.Level == level {
			sources = sources.And(imported.Sources(imported.Name))
		}
	}
	return mirror.Parse(sources)
}

// ownSources returns the rules of the configuration and of the appliance's registry. For a source
// with rules of both, the mirrors of the configuration come first.
func (r *Rules) ownSources() mirror.Sources {
	own, err := r.registry.Rules()
	if err != nil {
		r.log.Error("The mirror rules of the appliance's registry are not used.", "error", err)
		return r.configured
	}
	both := r.configured.And(own)
	if len(own.RegistriesConf) > 0 { // a later file replaces the tables of an earlier one
		both = own.And(r.configured)
	}
	if _, err := mirror.Parse(both); err != nil {
		r.log.Error("The rules of the appliance's registry contradict the configuration and are not used.", "error",
			err)
		return r.configured
	}
	return both
}

// refresh applies the present rules of the appliance's registry. It reports whether they changed.
func (r *Rules) refresh() (changed bool, err error) {
	r.changes.Lock()
	defer r.changes.Unlock()
	imports, err := r.Imports()
	if err != nil {
		return false, err
	}
	rules, err := r.parse(imports, mirror.Level{})
	if err != nil {
		return false, err
	}
	if rules.Equal(r.client.Rules()) {
		return false, nil
	}
	r.use(mirror.Level{}, rules, true)
	return true, nil
}

// NamedImport is an import with its level and its name.
type NamedImport struct {
	mirror.Import
	Level    mirror.Level
	Name     string
	Imported time.Time
}

// Imports lists the imports of all levels, the oldest first. A later import overrides an earlier
// one of the same level.
func (r *Rules) Imports() ([]NamedImport, error) {
	var imports []NamedImport
	err := r.db.View(func(tx *store.Tx) error {
		return importRows.Each(tx, "", func(key string, row *importRow) error {
			imports = append(imports, NamedImport{row.Import, row.Level, path.Base(key), row.Imported})
			return nil
		})
	})
	slices.SortStableFunc(imports, func(a, b NamedImport) int { return a.Imported.Compare(b.Imported) })
	return imports, err
}

// find returns the import of a level and name, or nil if there is none.
func (r *Rules) find(level mirror.Level, name string) (held *mirror.Import, err error) {
	err = r.db.View(func(tx *store.Tx) error {
		row, err := importRows.Get(tx, importKey(level, name))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			held = &row.Import
		}
		return err
	})
	return held, err
}

// change stores an import, or deletes it if added is nil, and applies the rules of its level.
func (r *Rules) change(ctx context.Context, level mirror.Level, name string, added *mirror.Import) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	imports, err := r.Imports()
	if err != nil {
		return err
	}
	now := r.clock.Now().UTC()
	imports = slices.DeleteFunc(imports, func(i NamedImport) bool { return i.Level == level && i.Name == name })
	if added != nil {
		imports = append(imports, NamedImport{*added, level, name, now})
	}
	rules, err := r.parse(imports, level)
	if err != nil {
		return err
	}
	if err := r.db.Update(ctx, func(tx *store.Tx) error {
		if added == nil {
			return importRows.Delete(tx, importKey(level, name))
		}
		return importRows.Put(tx, importKey(level, name), &importRow{Level: level, Imported: now, Import: *added})
	}); err != nil {
		return err
	}
	r.use(level, rules, slices.Contains(levelsOf(imports), level))
	if added != nil {
		r.log.Info("Mirror rules were imported.", "level", level, "name", name, "files", len(added.Files), "rules",
			len(rules.List()))
	} else {
		r.log.Info("Imported mirror rules were removed.", "level", level, "name", name)
	}
	return nil
}

// use applies the rules of a level. A cluster or infra-env without imports (own is false) uses the
// rules of the lower levels.
func (r *Rules) use(level mirror.Level, rules *mirror.Rules, own bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.problems, level)
	switch {
	case level == mirror.Level{}:
		r.client.Use(rules)
	case own:
		r.own[level] = rules
	default:
		delete(r.own, level)
	}
	r.dropLayered()
}

// dropLayered drops the clients of combined rules. The caller holds mu.
func (r *Rules) dropLayered() {
	for _, client := range r.layered {
		client.CloseIdleConnections()
	}
	clear(r.layered)
}

// problemsAt returns why imports that concern a level are not used, or "".
func (r *Rules) problemsAt(level mirror.Level) string {
	levels := []mirror.Level{{}}
	if level.InfraEnv != "" {
		levels = append(levels, mirror.Level{InfraEnv: level.InfraEnv})
	}
	if level.Cluster != "" {
		levels = append(levels, mirror.Level{Cluster: level.Cluster})
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var found []string
	for _, at := range levels {
		if problem := r.problems[at]; problem != "" {
			found = append(found, problem)
		}
	}
	return strings.Join(found, " ")
}

// Client returns the client with the rules of the appliance.
func (r *Rules) Client() *mirror.Client { return r.client }

// CABundle returns the CA certificates (PEM) that the appliance itself currently trusts.
func (r *Rules) CABundle() []byte { return r.client.Rules().CABundle() }

// At returns the rules of a level.
func (r *Rules) At(level mirror.Level) *mirror.Rules { return r.clientAt(level).Rules() }

// clientAt returns the client with the rules of a level. The rules of the cluster override those of
// the infra-env, which override those of the appliance.
func (r *Rules) clientAt(level mirror.Level) *mirror.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	infraEnv, cluster := r.own[mirror.Level{InfraEnv: level.InfraEnv}], r.own[mirror.Level{Cluster: level.Cluster}]
	if level.InfraEnv == "" || infraEnv == nil {
		level.InfraEnv, infraEnv = "", nil
	}
	if level.Cluster == "" || cluster == nil {
		level.Cluster, cluster = "", nil
	}
	if level == (mirror.Level{}) {
		return r.client
	}
	client := r.layered[level]
	if client == nil {
		rules, err := mirror.Layered(r.client.Rules(), infraEnv, cluster)
		if err != nil { // each level was parsed separately before
			r.log.Error("Mirror rules could not be combined. Only the appliance's rules are used.", "level", level,
				"error", err)
			return r.client
		}
		client = mirror.NewClient(rules, r.options)
		r.layered[level] = client
	}
	return client
}

// SignaturesOf returns the signatures of a release in the rules of all levels. They are not
// verified.
func (r *Rules) SignaturesOf(digest string) [][]byte {
	signatures := r.client.Rules().SignaturesOf(digest)
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, rules := range r.own {
		signatures = append(signatures, rules.SignaturesOf(digest)...)
	}
	return signatures
}

// Signed returns the digests of the releases with signatures in the rules of all levels.
func (r *Rules) Signed() []string {
	digests := r.client.Rules().Signatures()
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, rules := range r.own {
		digests = append(digests, rules.Signatures()...)
	}
	return digests
}

// Sigstore returns the Sigstore signatures of an image in the registries to which the rules of all
// levels lead, those of the appliance first.
func (r *Rules) Sigstore(ctx context.Context, image string, secret authn.Keychain) ([]mirror.SigstoreSignature,
	error) {
	clients := []*mirror.Client{r.client}
	r.mu.RLock()
	levels := slices.Collect(maps.Keys(r.own))
	r.mu.RUnlock()
	for _, level := range levels {
		clients = append(clients, r.clientAt(level))
	}
	return mirror.Sigstore(ctx, clients, image, secret)
}

// Digest returns the digest to which a pull spec refers according to the rules of the appliance.
func (r *Rules) Digest(ctx context.Context, pullSpec string, secret authn.Keychain) (string, error) {
	image, _, err := r.client.Get(ctx, pullSpec, secret)
	if err != nil {
		return "", err // the error names the image
	}
	return image.Digest.String(), nil
}

// Close closes idle connections to the mirror.
func (r *Rules) Close() { r.client.CloseIdleConnections() }

// Access returns the function by which the engine accesses the images of a level. Each call of it
// uses the current rules.
func Access(rules *Rules, releases *release.Library) func(mirror.Level) engine.ImageAccess {
	return func(level mirror.Level) engine.ImageAccess {
		client := rules.clientAt(level)
		through := releases.WithMirror(client)
		return engine.ImageAccess{Mirror: client.Rules(), Releases: through, CatalogReader: through,
			Catalogs: operatorCatalogs(client.Rules())}
	}
}

// operatorCatalogs returns the operator catalogs that the rules contain.
func operatorCatalogs(rules *mirror.Rules) []operator.Source {
	var documents [][]byte
	for _, object := range rules.Objects() {
		if object.Kind == mirror.KindCatalogSource {
			documents = append(documents, object.YAML)
		}
	}
	return operator.Sources(documents...)
}
