package command

import (
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	pageSources  = "../../web/ui/src"
	pagePackages = "../../web/ui/package.json"
	// libraryURL is the prefix that the library's client adds to its paths.
	libraryURL = "/api/assisted-install"
	// libraryRequests has the requests in a version of the Assisted Installer's UI library, so that
	// this test needs no npm packages. With -update and the library, it is written again.
	libraryRequests = "testdata/library-requests.txt"
)

var libraryModules = flag.String("library", "../../web/ui/node_modules/@openshift-assisted/ui-lib",
	"directory of the Assisted Installer's UI library, for -update")

// sent is a request that the page's source contains. Variable parts of its path are "*". A link is
// a path outside of a call, whose variable parts are only IDs.
type sent struct {
	method, path string
	link         bool
}

// pageRequests returns the requests in the sources of the page and of its library, sorted.
func pageRequests(t *testing.T) []sent {
	t.Helper()
	found := map[sent]bool{}
	require.NoError(t, filepath.WalkDir(pageSources, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && (filepath.Ext(path) == ".ts" || filepath.Ext(path) == ".tsx") {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			requestsIn(source(text), "", found)
		}
		return err
	}))
	for _, request := range requestsOfLibrary(t) {
		found[request] = true
	}
	return sorted(found)
}

func sorted(found map[sent]bool) []sent {
	return slices.SortedFunc(maps.Keys(found), func(a, b sent) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
}

// requestsOfLibrary returns the requests in the library's modules.
func requestsOfLibrary(t *testing.T) []sent {
	t.Helper()
	var versions struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	text, err := os.ReadFile(pagePackages)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &versions))
	title := "# @openshift-assisted/ui-lib " + versions.Dependencies["@openshift-assisted/ui-lib"] + "\n"
	modules, err := filepath.Glob(filepath.Join(*libraryModules, "build/cjs/common/api/assisted-service/*.js"))
	require.NoError(t, err)
	if *update && len(modules) > 0 {
		found := map[sent]bool{}
		for _, module := range modules {
			requestsIn(libraryModule(t, module), libraryURL, found)
		}
		var lines strings.Builder
		for _, request := range sorted(found) {
			lines.WriteString(request.method + " " + request.path + "\n")
		}
		require.NoError(t, os.WriteFile(libraryRequests, []byte(title+lines.String()), 0o644))
	}
	text, err = os.ReadFile(libraryRequests)
	require.NoError(t, err)
	listed, ok := strings.CutPrefix(string(text), title)
	require.True(t, ok, "the library has another version: install it (npm ci), then make docs")
	var all []sent
	for line := range strings.Lines(listed) {
		method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, sent{method: method, path: path})
	}
	return all
}

var (
	importedURI = regexp.MustCompile(`\b(\w+)_1\.default\.(make\w*URI\()`)
	ownURI      = regexp.MustCompile(`(?:\b\w+\.)?\b(make\w*URI\()`)
)

// libraryModule returns a module of the library with the modules whose functions for paths it
// calls. All modules have such functions of the same names, so each gets the name of its module.
func libraryModule(t *testing.T, path string) source {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	imported := map[string]bool{}
	for _, call := range importedURI.FindAllStringSubmatch(string(text), -1) {
		imported[call[1]] = true
	}
	module := strings.TrimSuffix(filepath.Base(path), ".js")
	named := importedURI.ReplaceAllString(string(text), "$1$2")
	all := source(ownURI.ReplaceAllString(named, module+"$1"))
	for _, other := range slices.Sorted(maps.Keys(imported)) {
		all += libraryModule(t, filepath.Join(filepath.Dir(path), other+".js"))
	}
	return all
}

var (
	requestCall = regexp.MustCompile(`\brequest\(\s*'([A-Z]+)',\s*`)
	readingCall = regexp.MustCompile(`\bgetJSON(?:<.*>)?\(\s*`)
	clientCall  = regexp.MustCompile(`\bclient\w*\.(get|post|put|patch|delete)\(`)
	apiText     = regexp.MustCompile("[`'](?:/api/|/metrics|\\$\\{)")
)

// requestsIn adds the requests of one source.
func requestsIn(text source, prefix string, found map[sent]bool) {
	link := false
	add := func(method, path string) {
		path, _, _ = strings.Cut(path, "?")
		if strings.HasPrefix(path, "/") {
			found[sent{method, prefix + strings.TrimSuffix(path, "/"), link}] = true
		}
	}
	for _, at := range requestCall.FindAllStringSubmatchIndex(string(text), -1) {
		add(string(text[at[2]:at[3]]), text.evaluate(expression(string(text[at[1]:])), nil))
	}
	for _, at := range readingCall.FindAllStringIndex(string(text), -1) {
		add("GET", text.evaluate(expression(string(text[at[1]:])), nil))
	}
	for _, at := range clientCall.FindAllStringSubmatchIndex(string(text), -1) {
		add(strings.ToUpper(string(text[at[2]:at[3]])), text.evaluate(expression(string(text[at[1]:])), nil))
	}
	if prefix != "" {
		return
	}
	// Links and sources of live updates are texts outside of calls.
	link = true
	for _, at := range apiText.FindAllStringIndex(string(text), -1) {
		before := strings.TrimRight(string(text[:at[0]]), " \n")
		if !strings.HasSuffix(before, "',") { // not the second argument of request
			if path := text.evaluate(expression(string(text[at[0]:])), nil); strings.HasPrefix(path, "/api/") ||
				path == "/metrics" {
				add("GET", path)
			}
		}
	}
}

// source is the text of a file in TypeScript or JavaScript.
type source string

// expression returns the expression at the beginning of a text: up to the comma, the closing
// bracket, the semicolon or the line break that ends it.
func expression(text string) string {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '\'' || quote == '"':
			if c == quote {
				quote = 0
			}
		case c == '`':
			i += template(text[i:]) - 1
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			if depth--; depth < 0 {
				return text[:i]
			}
		case (c == ',' || c == ';') && depth == 0:
			return text[:i]
		}
	}
	return text
}

// template returns the length of the template literal at the beginning of a text.
func template(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '`':
			return i + 1
		case strings.HasPrefix(text[i:], "${"):
			i += 2 + len(expression(text[i+2:]))
		}
	}
	return len(text)
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	called     = regexp.MustCompile(`^(?:\w+\.)?([A-Za-z_]\w*)\(`)
	joined     = regexp.MustCompile(`^('[^']*'|` + "`[^`]*`" + `|\w+) \+ `)
	ternary    = regexp.MustCompile(`^!?(\w+(?:\.\w+ > 0)?) \? (.+) : ('[^']*'|\w+)$`)
	returned   = regexp.MustCompile(`^\s*\{\s*return `)
	parameter  = regexp.MustCompile(`^\w+`)
)

// unknown is the value of everything that the source does not determine.
const unknown = "*"

// evaluate returns the text that an expression has: of literals, constants and functions of the
// same file. The values of names are those of the parameters of a function.
func (s source) evaluate(expr string, values map[string]string) string {
	expr = strings.TrimSpace(expr)
	if choice := ternary.FindStringSubmatch(expr); choice != nil {
		if value, ok := values[choice[1]]; ok && value == "" {
			return s.evaluate(choice[3], values)
		}
		return s.evaluate(choice[2], values)
	}
	if first := joined.FindStringSubmatch(expr); first != nil {
		return s.evaluate(first[1], values) + s.evaluate(expr[len(first[0]):], values)
	}
	switch {
	case strings.HasPrefix(expr, "'"):
		text, _, _ := strings.Cut(expr[1:], "'")
		return text
	case strings.HasPrefix(expr, "`"):
		return s.interpolate(expr[1:template(expr)-1], values)
	case identifier.MatchString(expr):
		if value, ok := values[expr]; ok {
			return value
		}
		if at := s.definition(`const ` + expr + `(?:: \w+)? = `); at >= 0 {
			return s.evaluate(expression(string(s[at:])), nil)
		}
	case called.MatchString(expr):
		name := called.FindStringSubmatch(expr)
		return s.call(name[1], expr[len(name[0]):], values)
	}
	return unknown
}

func (s source) interpolate(text string, values map[string]string) string {
	var out strings.Builder
	for {
		before, rest, more := strings.Cut(text, "${")
		out.WriteString(before)
		if !more {
			return out.String()
		}
		inner := expression(rest)
		out.WriteString(s.evaluate(inner, values))
		text = rest[len(inner)+1:]
	}
}

// definition returns the place behind a definition, or -1.
func (s source) definition(pattern string) int {
	at := regexp.MustCompile(`(?m)^\s*(?:export )?` + pattern).FindStringIndex(string(s))
	if at == nil {
		return -1
	}
	return at[1]
}

// call evaluates a function of the file: const f = (a, b) => text, or f(a, b) { return text; }.
func (s source) call(name, arguments string, values map[string]string) string {
	at := s.definition(`(?:const ` + name + ` = \(|` + name + `\()`)
	if at < 0 {
		return unknown
	}
	parameters := expression("(" + string(s[at:]) + "\x00")
	open := strings.Index(parameters, ")")
	if open < 0 {
		return unknown
	}
	body := string(s[at+open:])
	if _, arrow, ok := strings.Cut(body, "=>"); ok && !returned.MatchString(body) {
		body = arrow
	} else if at := returned.FindStringIndex(body); at != nil {
		body = body[at[1]:]
	}
	bound := map[string]string{}
	for declared := range strings.SplitSeq(parameters[1:open], ",") {
		argument := expression(arguments)
		value := unknown
		if argument = strings.TrimSpace(argument); argument != "" {
			value = s.evaluate(argument, values)
		} else if strings.HasSuffix(name, "URI") {
			value = "" // the library's functions for a path without an ID
		}
		bound[parameter.FindString(strings.TrimSpace(declared))] = value
		arguments = strings.TrimPrefix(arguments[min(len(arguments), len(expression(arguments))):], ",")
	}
	return s.evaluate(expression(body), bound)
}

// matches reports whether a request has the path of a route: /clusters/:cluster_id.
func (r sent) matches(method, route string) bool {
	if r.method != method && (r.method != "HEAD" || method != "GET") {
		return false
	}
	sentParts, parts := strings.Split(r.path, "/"), strings.Split(route, "/")
	if len(sentParts) != len(parts) {
		return false
	}
	for i, part := range parts {
		is := sentParts[i]
		switch {
		case is == part, strings.HasPrefix(part, ":"):
		case len(is) > 1 && strings.TrimSuffix(is, unknown) == part: // with an optional query
		case is == unknown && !r.link:
		default:
			return false
		}
	}
	return true
}

func TestPageRequests_evaluated(t *testing.T) {
	found := map[sent]bool{}
	requestsIn(`
const root = '/api/v1/things';
const one = (id: string) => `+"`${root}/${encodeURIComponent(id)}`"+`;
export const list = () => getJSON<{ things: Thing[] }>(root + query(level), signal);
export const add = async (thing: Thing) => {
  await request('POST', root, { json: thing });
  await request('PUT', `+"`${one(thing.id)}/parts${dry ? '?dry_run=true' : ''}`"+`);
};
const href = `+"`/api/v1/${kind}/${id}/file`"+`;
`, "", found)
	require.Contains(t, found, sent{"POST", "/api/v1/things", false})
	require.Contains(t, found, sent{"PUT", "/api/v1/things/*/parts", false})
	require.Contains(t, found, sent{"GET", "/api/v1/things*", false})
	require.Contains(t, found, sent{"GET", "/api/v1/*/*/file", true})
	require.True(t, sent{"GET", "/api/v1/things*", false}.matches("GET", "/api/v1/things"))
	require.True(t, sent{"PUT", "/api/v1/things/*/parts", false}.matches("PUT", "/api/v1/things/:id/parts"))
	require.False(t, sent{"GET", "/api/v1/*/*/file", true}.matches("GET", "/api/v1/things/:id/file"),
		"the variable part of a link is an ID")
}

func TestLibraryModule_callsFunctionsOfAnother(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Rooms.js": `
const Rooms = {
    makeBaseURI(house) {
        return ` + "`${Houses_1.default.makeBaseURI(house)}/rooms`" + `;
    },
    put(house, data) {
        return axiosClient_1.clientWithoutCaseConverter.put(` + "`${Rooms.makeBaseURI(house)}/all`" + `, data);
    },
};
`,
		"Houses.js": `
const Houses = {
    makeBaseURI(house) {
        return ` + "`/v2/houses/${house ? house : ''}`" + `;
    },
};
`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	found := map[sent]bool{}
	requestsIn(libraryModule(t, filepath.Join(dir, "Rooms.js")), libraryURL, found)
	require.Equal(t, map[sent]bool{{"PUT", "/api/assisted-install/v2/houses/*/rooms/all", false}: true}, found)
}
