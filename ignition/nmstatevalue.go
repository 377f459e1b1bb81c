package ignition

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a network description. A host with a hundred interfaces stays far below them.
const (
	networkYAMLLimit  = 1 << 20 // bytes
	networkDepthLimit = 32      // nested mappings and lists
	networkNodeLimit  = 100_000 // values; an alias counts at each use
	nicLimit          = 1000    // NICs with a logical name
)

// NetworkFault reports why the network description of a machine is invalid, or why it needs a more
// complex form of settings.
type NetworkFault struct {
	Host    int    // index of the description, from 0
	Field   string // such as "interfaces[0].ipv4.address[1].ip"; "" for the whole description
	Line    int    // of the host's YAML, from 1; 0 if there is none
	Problem string // sentence without its subject
}

func (f *NetworkFault) Error() string {
	return fmt.Sprintf("host %d: %s", f.Host, f.Sentence())
}

// Sentence returns the problem as a sentence, without the host.
func (f *NetworkFault) Sentence() string {
	switch {
	case f.Field == "":
		return f.Problem
	case f.Line == 0:
		return f.Field + " " + f.Problem
	}
	return fmt.Sprintf("%s (line %d) %s", f.Field, f.Line, f.Problem)
}

// yamlLine matches the line number in an error of the YAML library. The number is available only in
// the error's text.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// readDocument parses a description as one mapping. Aliases and merge keys are replaced by copies
// of their targets.
func readDocument(text string) (*yaml.Node, *NetworkFault) {
	whole := func(format string, args ...any) *NetworkFault {
		return &NetworkFault{Problem: fmt.Sprintf(format, args...)}
	}
	if len(text) > networkYAMLLimit {
		return nil, whole("the network YAML has %.1f MiB; the limit per host is %d MiB",
			float64(len(text))/(1<<20), networkYAMLLimit>>20)
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, next yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, unreadable(text, err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, whole("the network YAML must be a mapping with a list of interfaces")
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		return nil,
			whole("the network YAML has a second document, which starts in line %d (after ---); a host needs one "+
				"document",
				max(next.Line, 1))
	case !errors.Is(err, io.EOF):
		return nil, unreadable(text, err)
	}
	r := &documentReader{root: document.Content[0]}
	r.check(r.root, 0)
	if r.fault == nil && r.aliases {
		return r.expand(r.root), r.fault
	}
	return r.root, r.fault
}

// unreadable returns the fault for invalid YAML. It checks for tabs, because they are the most
// common cause and hard to see.
func unreadable(text string, err error) *NetworkFault {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		number, numberErr := strconv.Atoi(m[1])
		if numberErr != nil {
			number = 0 // out of range
		}
		lines := strings.Split(text, "\n")
		// Some errors of the library count lines from 0.
		for _, n := range []int{number, number + 1} {
			if n >= 1 && n <= len(lines) &&
				strings.Contains(lines[n-1][:len(lines[n-1])-len(strings.TrimLeft(lines[n-1], " \t"))], "\t") {
				return &NetworkFault{Line: n,
					Problem: fmt.Sprintf("the network YAML can't be read: line %d begins with a tab; YAML is "+
						"indented with blanks", n)}
			}
		}
		return &NetworkFault{Line: number, Problem: fmt.Sprintf("the network YAML can't be read: %v", err)}
	}
	return &NetworkFault{Problem: fmt.Sprintf("the network YAML can't be read: %v", err)}
}

// documentReader checks a document before it is interpreted. It keeps the first fault.
type documentReader struct {
	root    *yaml.Node
	nodes   int
	aliases bool // the document has aliases or merge keys
	fault   *NetworkFault
}

func (r *documentReader) refuse(n *yaml.Node, name, problem string) {
	if r.fault == nil {
		path, _ := pathOf(r.root, n, "")
		if name != "" {
			path = join(path, name)
		}
		r.fault = &NetworkFault{Field: path, Line: n.Line, Problem: problem}
	}
}

// check checks the limits and the keys. A node counts once for each alias that refers to it.
func (r *documentReader) check(n *yaml.Node, depth int) {
	r.nodes++
	switch {
	case r.fault != nil:
		return
	case depth > networkDepthLimit:
		r.refuse(n, "", fmt.Sprintf("is nested in more than %d mappings and lists", networkDepthLimit))
		return
	case r.nodes > networkNodeLimit:
		r.refuse(n, "", fmt.Sprintf("exceeds the limit of %d values per host; an alias counts at each use",
			networkNodeLimit))
		return
	case n.Kind == yaml.AliasNode:
		r.aliases = true
		r.check(n.Alias, depth+1)
		return
	case n.Kind == yaml.MappingNode:
		r.checkKeys(n)
	}
	for _, child := range n.Content {
		r.check(child, depth+1)
	}
}

func (r *documentReader) checkKeys(n *yaml.Node) {
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Tag == "!!merge" {
			r.aliases = true
			continue
		}
		if key.Kind != yaml.ScalarNode {
			r.refuse(n, "", "has a key that is not a string")
			return
		}
		if first, twice := lines[key.Value]; twice {
			r.refuse(n, key.Value, fmt.Sprintf("is a duplicate; the first one is in line %d", first))
			r.fault.Line = key.Line
			return
		}
		lines[key.Value] = key.Line
	}
}

// pathOf returns the path from n to a node. It searches the node itself before its aliases.
func pathOf(n, wanted *yaml.Node, path string) (string, bool) {
	if n == wanted {
		return path, true
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if found, ok := pathOf(n.Content[i+1], wanted, join(path, n.Content[i].Value)); ok {
				return found, true
			}
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if found, ok := pathOf(item, wanted, fmt.Sprintf("%s[%d]", path, i)); ok {
				return found, true
			}
		}
	}
	return path, false
}

// expand copies a checked node. Aliases and merge keys are replaced by copies of their targets.
func (r *documentReader) expand(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return r.expand(n.Alias)
	}
	out := *n
	out.Anchor, out.Alias, out.Content = "", nil, nil
	if n.Kind != yaml.MappingNode {
		for _, item := range n.Content {
			out.Content = append(out.Content, r.expand(item))
		}
		return &out
	}
	own := make(map[string]bool, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Tag == "!!merge" {
			merged = append(merged, n.Content[i+1])
		} else {
			own[key.Value] = true
			out.Content = append(out.Content, r.expand(key), r.expand(n.Content[i+1]))
		}
	}
	for _, value := range merged {
		r.merge(&out, value, own)
	}
	return &out
}

// merge adds the fields of a merge key ("<<") that the mapping does not contain:
// https://yaml.org/type/merge.html
func (r *documentReader) merge(out, value *yaml.Node, own map[string]bool) {
	from := r.expand(value)
	sources := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		sources = from.Content
	}
	for _, source := range sources {
		if source.Kind != yaml.MappingNode {
			r.refuse(value, "", "must refer to a mapping")
			return
		}
		for i := 0; i+1 < len(source.Content); i += 2 {
			if key := source.Content[i].Value; !own[key] {
				own[key] = true
				out.Content = append(out.Content, source.Content[i], source.Content[i+1])
			}
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// lineOf returns the line of a field such as "interfaces[1].vlan.id". If the field does not exist,
// it returns the line of the nearest existing parent.
func lineOf(n *yaml.Node, path string) int {
	line := n.Line
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		next, rest := (*yaml.Node)(nil), ""
		switch n.Kind {
		case yaml.SequenceNode:
			number, behind, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
			if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(n.Content) {
				next, rest = n.Content[i], behind
				line = next.Line
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				behind, ok := strings.CutPrefix(path, n.Content[i].Value)
				if ok && (behind == "" || behind[0] == '.' || behind[0] == '[') {
					next, rest = n.Content[i+1], behind
					line = n.Content[i].Line
					break
				}
			}
		}
		if next == nil {
			return line
		}
		n, path = next, rest
	}
	return line
}

func fieldIndex(n *yaml.Node, name string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

func field(n *yaml.Node, name string) *yaml.Node {
	if i := fieldIndex(n, name); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// value is a node of the state with its path.
type value struct {
	p    *stateParser
	node *yaml.Node
	path string
}

func (v value) refuse(format string, args ...any) { v.p.refuse(v.path, v.node.Line, format, args...) }

func (v value) empty() bool {
	return v.node.Tag == "!!null" || v.node.Kind != yaml.ScalarNode && len(v.node.Content) == 0
}

// fields visits the fields of a mapping. If visit returns false for a field that is not empty, the
// field is either misspelt or not supported by keyfiles. keys contains all keys of nmstate in this
// mapping.
func (v value) fields(keys string, visit func(name string, v value) bool) {
	if v.empty() {
		return
	}
	if v.node.Kind != yaml.MappingNode {
		v.refuse("must be a mapping")
		return
	}
	for i := 0; i+1 < len(v.node.Content) && v.p.fault == nil; i += 2 {
		name := v.node.Content[i].Value
		child := value{v.p, v.node.Content[i+1], join(v.path, name)}
		if visit(name, child) || child.empty() || v.p.fault != nil {
			continue
		}
		line := v.node.Content[i].Line
		if meant := nearest(name, strings.Fields(keys)); meant != "" {
			v.p.refuse(child.path, line, "is not a field of nmstate: use %s instead", meant)
			return
		}
		v.p.beyond(child.path, line, beyondKeyfiles)
	}
}

// nearest returns the key that is most similar to a name. It returns "" if the name is a key or no
// key is similar.
func nearest(name string, keys []string) string {
	if len(name) > 40 || slices.Contains(keys, name) {
		return ""
	}
	best, found := 3, ""
	for _, key := range keys {
		if d := distance(strings.ReplaceAll(strings.ToLower(name), "_", "-"), key); d < best && d*3 <= len(key) {
			best, found = d, key
		}
	}
	return found
}

// distance returns the number of insertions, deletions, replacements and swaps of adjacent letters
// that convert one text to the other (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

func (v value) each(visit func(v value)) {
	if v.empty() {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.refuse("must be a list")
		return
	}
	for i, item := range v.node.Content {
		if v.p.fault != nil {
			return
		}
		visit(value{v.p, item, fmt.Sprintf("%s[%d]", v.path, i)})
	}
}

// text reads a scalar without control characters, so that it fits into a line of a keyfile.
func (v value) text() string {
	if v.node.Kind != yaml.ScalarNode {
		v.refuse("must be a single value")
		return ""
	}
	if strings.ContainsFunc(v.node.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		v.refuse("must be one line without control characters")
		return ""
	}
	return v.node.Value
}

// word reads a scalar without blanks, commas and semicolons, so that it fits into a list.
func (v value) word() string {
	text := v.text()
	if v.p.fault == nil && (text == "" || strings.ContainsAny(text, " ,;=\\")) {
		v.refuse("is %q; it must be one word", text)
	}
	return text
}

func (v value) words() []string {
	var all []string
	v.each(func(v value) { all = append(all, v.word()) })
	return all
}

var leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]`)

func (v value) number(from, to int64) int64 {
	text := v.text()
	if leadingZero.MatchString(text) {
		// YAML 1.1 reads an octal number, nmstate a decimal one.
		v.refuse("is %q; write the number without the leading zero", text)
		return 0
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n < from || n > to {
		v.refuse("is %q; it must be a whole number from %d to %d", text, from, to)
	}
	return n
}

// truth reads a boolean in the spelling of nmstate and returns it in the spelling of
// NetworkManager.
func (v value) truth() string {
	switch text := v.text(); strings.ToLower(text) {
	case "true", "yes", "on", "1", "y":
		return "true"
	case "false", "no", "off", "0", "n":
		return "false"
	default:
		v.refuse("is %q; it must be true or false", text)
		return ""
	}
}

func (v value) oneOf(allowed ...string) string {
	text := v.text()
	if !slices.Contains(allowed, text) {
		v.refuse("is %q; it must be one of %s", text, strings.Join(allowed, ", "))
	}
	return text
}

func (v value) mac() string {
	text := v.text()
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		v.refuse("is %q; a MAC address looks like 52:54:00:12:34:56", text)
		return ""
	}
	return strings.ToUpper(mac.String())
}

func (v value) address(v6 bool) netip.Addr {
	text := v.text()
	a, err := netip.ParseAddr(text)
	if err != nil || a.Is4() == v6 || a.Zone() != "" || a.Is4In6() {
		v.refuse("is %q, which is not an %s address", text, familyName(v6))
	}
	return a
}

// network reads an address with or without a prefix length.
func (v value) network() netip.Prefix {
	text := v.text()
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err == nil && a.Zone() == "" {
			prefix = netip.PrefixFrom(a, a.BitLen())
		}
	}
	if err != nil || !prefix.IsValid() || prefix.Addr().Is4In6() {
		v.refuse("is %q; a network looks like 192.168.0.0/24 or 2001:db8::/64", text)
		return netip.Prefix{}
	}
	return prefix.Masked()
}

func familyName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}
