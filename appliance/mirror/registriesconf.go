package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/pelletier/go-toml/v2"
)

// confFile is a registries.conf, version 2. It preserves keys that do not concern mirrors.
type confFile struct {
	UnqualifiedSearch    []string          `toml:"unqualified-search-registries,omitempty"`
	ShortNameMode        string            `toml:"short-name-mode,omitempty"`
	CredentialHelpers    []string          `toml:"credential-helpers,omitempty"`
	LayerStoreAuthHelper string            `toml:"additional-layer-store-auth-helper,omitempty"`
	Aliases              map[string]string `toml:"aliases,omitempty"`

	Registry []confTable `toml:"registry,omitempty"`
	// Registries is the only table of version 1.
	Registries map[string]any `toml:"registries,omitempty"`
}

type confTable struct {
	Prefix             string       `toml:"prefix,omitempty"`
	Location           string       `toml:"location,omitempty"`
	Insecure           bool         `toml:"insecure,omitempty"`
	Blocked            bool         `toml:"blocked,omitempty"`
	MirrorByDigestOnly bool         `toml:"mirror-by-digest-only,omitempty"`
	PullFromMirror     string       `toml:"pull-from-mirror,omitempty"`
	Mirror             []confMirror `toml:"mirror,omitempty"`
}

type confMirror struct {
	Location       string `toml:"location"`
	Insecure       bool   `toml:"insecure,omitempty"`
	PullFromMirror string `toml:"pull-from-mirror,omitempty"`
}

// registriesConf collects a main file and its drop-ins.
type registriesConf struct {
	settings confFile
	tables   []table
}

func (c *registriesConf) add(doc Document) error {
	var file confFile
	if err := toml.NewDecoder(bytes.NewReader(doc.Data)).DisallowUnknownFields().Decode(&file); err != nil {
		return tomlError(doc, err)
	}
	if file.Registries != nil {
		return &InputError{doc.Name, "[registries]",
			"version 1 of the format has no mirrors; write [[registry]] tables (version 2)"}
	}
	var tables []table
	for i, ct := range file.Registry {
		t, err := ct.table(doc.Name, fmt.Sprintf("[[registry]] %d", i+1))
		if err != nil {
			return err
		}
		for _, other := range tables {
			if other.prefix == t.prefix {
				return &InputError{doc.Name, fmt.Sprintf("[[registry]] %d", i+1),
					fmt.Sprintf("the prefix %q already has a table, and only the first would apply; merge the tables",
						t.prefix)}
			}
			if other.location == t.location && t.location != "" && (other.insecure != t.insecure ||
				other.blocked != t.blocked) {
				return &InputError{doc.Name, fmt.Sprintf("[[registry]] %d", i+1),
					fmt.Sprintf("the location %q occurs twice with different values of insecure or blocked; use the "+
						"same values",
						t.location)}
			}
		}
		tables = append(tables, t)
	}
	c.replace(tables)
	c.settings.override(file)
	return nil
}

// replace replaces tables with a drop-in's tables of the same prefixes.
func (c *registriesConf) replace(tables []table) {
	for _, t := range tables {
		i := slices.IndexFunc(c.tables, func(old table) bool { return old.prefix == t.prefix })
		if i < 0 {
			c.tables = append(c.tables, t)
		} else {
			t.replaced = append(c.tables[i].replaced, c.tables[i].origin)
			c.tables[i] = t
		}
	}
}

func (s *confFile) override(by confFile) {
	if by.UnqualifiedSearch != nil {
		s.UnqualifiedSearch = by.UnqualifiedSearch
	}
	if by.ShortNameMode != "" {
		s.ShortNameMode = by.ShortNameMode
	}
	if by.CredentialHelpers != nil {
		s.CredentialHelpers = by.CredentialHelpers
	}
	if by.LayerStoreAuthHelper != "" {
		s.LayerStoreAuthHelper = by.LayerStoreAuthHelper
	}
	for alias, image := range by.Aliases {
		if s.Aliases == nil {
			s.Aliases = map[string]string{}
		}
		s.Aliases[alias] = image
	}
}

func (ct confTable) table(document, where string) (table, error) {
	fail := func(at, problem string, args ...any) (table, error) {
		return table{}, &InputError{document, at, fmt.Sprintf(problem, args...)}
	}
	t := table{prefix: ct.Prefix, location: ct.Location, insecure: ct.Insecure, blocked: ct.Blocked, origin: document}
	if t.prefix == "" {
		t.prefix = t.location
	}
	t.prefix, t.location = strings.TrimRight(t.prefix, "/"), strings.TrimRight(t.location, "/")
	switch {
	case t.prefix == "":
		return fail(where, "neither location nor prefix is set; location is the registry or repository that the "+
			"table describes")
	case t.location == "" && !strings.HasPrefix(t.prefix, "*."):
		return fail(where, "location is missing; only a wildcard prefix such as *.example.com needs none")
	case ct.PullFromMirror != "":
		return fail(where, "pull-from-mirror belongs in a [[registry.mirror]] table")
	}
	if problem := checkSource(t.prefix); problem != "" {
		return fail(where, "prefix %q %s", t.prefix, problem)
	}
	if problem := checkLocation(t.location); t.location != "" && problem != "" {
		return fail(where, "location %q %s", t.location, problem)
	}
	for i, cm := range ct.Mirror {
		at := fmt.Sprintf("%s (%s), mirror %d", where, t.prefix, i+1)
		m := mirror{location: strings.TrimRight(cm.Location, "/"), insecure: cm.Insecure, use: use(cm.PullFromMirror)}
		switch {
		case m.location == "":
			return fail(at, "location is missing; it names the mirror's registry and repository")
		case ct.MirrorByDigestOnly && cm.PullFromMirror != "":
			return fail(at, "pull-from-mirror and the table's mirror-by-digest-only exclude each other; keep one of "+
				"them")
		}
		if problem := checkLocation(m.location); problem != "" {
			return fail(at, "location %q %s", m.location, problem)
		}
		switch m.use {
		case useAll, useDigestOnly, useTagOnly:
		case "":
			m.use = useAll
		default:
			return fail(at, "pull-from-mirror is %q; it must be all, digest-only or tag-only", m.use)
		}
		if ct.MirrorByDigestOnly {
			m.use = useDigestOnly
		}
		t.mirrors = append(t.mirrors, m)
	}
	return t, nil
}

// checkSource returns the problem of a prefix, or "".
func checkSource(s string) string {
	if host, ok := strings.CutPrefix(s, "*."); ok {
		if strings.ContainsAny(host, "/:@*") || host == "" {
			return "must have the form *.example.com"
		}
		if _, err := name.NewRegistry(host, name.StrictValidation); err != nil {
			return "must have the form *.example.com"
		}
		return ""
	}
	if strings.Contains(s, "*") {
		return "has a * that is not a whole first label; write *.example.com"
	}
	if _, err := name.ParseReference(s); err == nil {
		return checkHost(s) // a repository with an optional tag or digest
	}
	return checkLocation(s)
}

// checkLocation returns the problem of the name of a registry, namespace or repository, or "".
func checkLocation(s string) string {
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return fmt.Sprintf("begins with %s://; remove the scheme", scheme)
	}
	if _, err := name.NewRepository(s + "/x"); err != nil || strings.ContainsAny(s, "@ \t\r\n") {
		return "must look like host[:port][/path], without a tag or digest"
	}
	return checkHost(s)
}

func checkHost(s string) string {
	host, _, _ := strings.Cut(s, "/")
	if strings.ContainsAny(host, ".:") || host == "localhost" {
		return ""
	}
	return "must begin with a registry's host, such as quay.io or mirror.example.com:5000"
}

// tomlError returns an error of the TOML decoder with its line and key.
func tomlError(doc Document, err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		first := unknown.Errors[0]
		row, _ := first.Position()
		return &InputError{doc.Name, fmt.Sprintf("line %d", row),
			fmt.Sprintf("%s is not a key of registries.conf", strings.Join(first.Key(), "."))}
	}
	var bad *toml.DecodeError
	if !errors.As(err, &bad) {
		return &InputError{doc.Name, "", "can't be read as TOML: " + err.Error()}
	}
	row, column := bad.Position()
	where := fmt.Sprintf("line %d, column %d", row, column)
	problem := "is not TOML: " + strings.TrimPrefix(bad.Error(), "toml: ")
	// The decoder's error names Go types: "cannot decode TOML string into struct field pkg.T.F of
	// type bool".
	if found, rest, ok := strings.Cut(bad.Error(), " into "); ok {
		if _, wanted, ok := strings.Cut(rest, "of type "); ok {
			lines := bytes.Split(doc.Data, []byte("\n"))
			key, _, _ := bytes.Cut(lines[min(row, len(lines))-1], []byte("="))
			where += ", key " + string(bytes.TrimSpace(key))
			problem = fmt.Sprintf("is a %s where a %s is expected", found[strings.LastIndex(found, " ")+1:],
				tomlKind(wanted))
		}
	}
	return &InputError{doc.Name, where, problem}
}

func tomlKind(goType string) string {
	switch {
	case goType == "bool":
		return "boolean (true or false)"
	case strings.HasPrefix(goType, "[]mirror."), strings.HasPrefix(goType, "mirror."), strings.HasPrefix(goType, "map"):
		return "table"
	case strings.HasPrefix(goType, "[]"):
		return "list of strings"
	default:
		return goType
	}
}

// RegistriesConf returns the rules as a registries.conf, version 2, or nil if there are no rules.
// Parsing the result yields the same endpoints.
func (r *Rules) RegistriesConf() []byte {
	if r == nil {
		return nil
	}
	return bytes.Clone(r.conf)
}

func writeRegistriesConf(settings confFile, tables []table) ([]byte, error) {
	if len(tables) == 0 {
		return nil, nil
	}
	file := settings
	for _, t := range tables {
		ct := confTable{Prefix: t.prefix, Location: t.location, Insecure: t.insecure, Blocked: t.blocked}
		if t.prefix == t.location {
			ct.Prefix = ""
		}
		// All versions of podman and CRI-O support the older key. Versions since 2022 support
		// pull-from-mirror.
		ct.MirrorByDigestOnly = len(t.mirrors) > 0 &&
			!slices.ContainsFunc(t.mirrors, func(m mirror) bool { return m.use != useDigestOnly })
		for _, m := range t.mirrors {
			cm := confMirror{Location: m.location, Insecure: m.insecure}
			if !ct.MirrorByDigestOnly && m.use != useAll {
				cm.PullFromMirror = string(m.use)
			}
			ct.Mirror = append(ct.Mirror, cm)
		}
		file.Registry = append(file.Registry, ct)
	}
	out, err := toml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("write the mirror rules as registries.conf: %w", err)
	}
	return out, nil
}
