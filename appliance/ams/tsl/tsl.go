// Package tsl reads and evaluates the search language of OpenShift Cluster Manager's lists, such as
//
//	cluster_id = '123' and status in ('Active', 'Reserved')
//
// It is a subset of SQL's conditions: = != <> < <= > >=, ~= and ~! (regular expressions), [not]
// like, [not] ilike, [not] in, [not] between, is [not] null, not, and, or, parentheses. Text is
// enclosed in single quotes; a quote within text is doubled. Names have at most two dots. Keywords
// are case-insensitive. "and" binds more tightly than "or". A missing field is null, and a
// condition on null is neither true nor false, as in SQL.
//
// The grammar is that of github.com/yaacov/tree-search-language, which the template of Red Hat's
// services uses. Unlike that library, this package rejects stray characters, and Query.Names lets
// the caller reject unknown fields.
//
// A dialect may add the JSON paths of PostgreSQL to the names, such as
//
//	payload->'metadata'->'labels'->>'app' = 'x' and payload->'metadata'->'labels' @> '{"a":"b"}'
//
// The last operator ->> makes text of a value. With @>, a value contains the members of a JSON
// object. In this dialect, "= null" is "is null", and "<> null" is "is not null".
package tsl

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a query.
const (
	maxLength = 4096 // bytes
	maxDepth  = 50   // of nested parentheses and nots
)

// Query is a parsed search.
type Query struct {
	root  node
	names []string
}

// Dialect is a variant of the language. The zero value is the language itself.
type Dialect struct {
	// Paths permits JSON paths in names.
	Paths bool
	// AnyCase reports whether a field's text is compared without regard to case; nil for none. Its
	// texts in the search are then read in lower case.
	AnyCase func(name string) bool
}

// Error says what is wrong with a search.
type Error struct {
	// Position is the number of the first wrong character; the first of the search is 1.
	Position int
	Reason   string
}

// Error implements error. It is a sentence for the user.
func (e *Error) Error() string {
	if e.Position == 0 {
		return e.Reason
	}
	return fmt.Sprintf("%s (at character %d)", e.Reason, e.Position)
}

// Parse parses a search. An empty search matches everything. Its errors are of type *Error.
func Parse(text string) (*Query, error) { return Dialect{}.Parse(text) }

// Parse parses a search in the dialect. See the function Parse.
func (d Dialect) Parse(text string) (*Query, error) {
	if len(text) > maxLength {
		return nil, &Error{Reason: fmt.Sprintf("the search has %d bytes; at most %d are allowed", len(text), maxLength)}
	}
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, end: utf8.RuneCountInString(text) + 1, dialect: d, query: &Query{}}
	if p.peek().kind == endToken {
		return p.query, nil
	}
	if p.query.root, err = p.or(); err != nil {
		return nil, p.located(err)
	}
	if next := p.peek(); next.kind != endToken {
		return nil, p.located(fmt.Errorf("the search continues with %s after its end; join conditions with and, or",
			next))
	}
	return p.query, nil
}

// Names returns the fields that the search uses, each once. A JSON path is written without spaces.
func (q *Query) Names() []string { return q.names }

// Equal returns the text that a field has in every match. The second result is false if there is no
// such text.
func (q *Query) Equal(name string) (string, bool) {
	if texts, ok := q.Among(name); ok && len(texts) == 1 {
		return texts[0], true
	}
	return "", false
}

// Among returns texts of which the field has one in every match, sorted and each once, so that the
// caller can read the matches from an index. The second result is false if the field may have any
// value.
func (q *Query) Among(name string) ([]string, bool) {
	texts, ok := among(q.root, name)
	return union(texts, nil), ok
}

func among(n node, name string) ([]string, bool) {
	switch n := n.(type) {
	case junction:
		left, leftOK := among(n.left, name)
		right, rightOK := among(n.right, name)
		switch {
		case !n.and && leftOK && rightOK:
			return union(left, right), true
		case n.and && leftOK && (!rightOK || len(left) <= len(right)):
			return left, true
		case n.and && rightOK:
			return right, true
		}
	case condition:
		return n.texts, n.name == name && n.texts != nil
	}
	return nil, false
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Match reports whether an object of decoded JSON matches. The comparison of a number with text is
// an error.
func (q *Query) Match(object map[string]any) (bool, error) {
	return q.MatchRow(func(path []string) []any { return at(object, path) })
}

// MatchRow reports whether a row matches. lookup returns the values of a field by its path in
// decoded JSON. See Match.
func (q *Query) MatchRow(lookup func(path []string) []any) (bool, error) {
	if q.root == nil {
		return true, nil
	}
	truth, err := q.root.eval(lookup)
	return truth == yes, err
}

// truth is a value of SQL's three-valued logic.
type truth int

const (
	unknown truth = iota
	no
	yes
)

func is(condition bool) truth {
	if condition {
		return yes
	}
	return no
}

func (v truth) not() truth {
	switch v {
	case yes:
		return no
	case no:
		return yes
	}
	return unknown
}

// lookup returns the values of a field.
type lookup = func(path []string) []any

type node interface {
	eval(row lookup) (truth, error)
}

type junction struct {
	and         bool
	left, right node
}

func (j junction) eval(row lookup) (truth, error) {
	left, err := j.left.eval(row)
	if err != nil {
		return unknown, err
	}
	right, err := j.right.eval(row)
	if err != nil {
		return unknown, err
	}
	decisive := is(!j.and)
	switch {
	case left == decisive || right == decisive:
		return decisive, nil
	case left == unknown || right == unknown:
		return unknown, nil
	}
	return decisive.not(), nil
}

type negation struct{ of node }

func (n negation) eval(row lookup) (truth, error) {
	v, err := n.of.eval(row)
	return v.not(), err
}

// condition is a condition on one field. A field with several values (labels) fulfills it if one of
// the values does.
type condition struct {
	field
	null  bool     // is null
	texts []string // the only texts that fulfill the condition; nil if there are others
	test  func(value any) (bool, error)
}

// field is a field of a row.
type field struct {
	name    string // as in the search
	path    []string
	text    bool // its values are converted to text
	anyCase bool // its text is read in lower case
}

// values returns the field's values in a row.
func (f field) values(row lookup) []any {
	values := row(f.path)
	if !f.text && !f.anyCase {
		return values
	}
	converted := make([]any, len(values))
	for i, value := range values {
		if f.text {
			value = asText(value)
		}
		if text, ok := value.(string); ok && f.anyCase {
			value = strings.ToLower(text)
		}
		converted[i] = value
	}
	return converted
}

// asText returns the text that PostgreSQL's operator ->> makes of a JSON value.
func asText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

func (c condition) eval(row lookup) (truth, error) {
	values := c.values(row)
	if c.null {
		return is(len(values) == 0), nil
	}
	if len(values) == 0 {
		return unknown, nil
	}
	for _, value := range values {
		holds, err := c.test(value)
		if err != nil {
			return unknown, fmt.Errorf("the field %s %w", c.name, err)
		}
		if holds {
			return yes, nil
		}
	}
	return no, nil
}

// Values returns the values of a dotted name in decoded JSON. A list in the path contributes all
// its members.
func Values(object any, name string) []any { return at(object, strings.Split(name, ".")) }

func at(object any, path []string) []any {
	found := []any{object}
	for _, part := range path {
		var next []any
		for _, at := range flat(found) {
			if fields, ok := at.(map[string]any); ok {
				if value, ok := fields[part]; ok && value != nil {
					next = append(next, value)
				}
			}
		}
		found = next
	}
	return flat(found)
}

func flat(values []any) []any {
	var all []any
	for _, value := range values {
		if list, ok := value.([]any); ok {
			all = append(all, flat(list)...)
			continue
		}
		all = append(all, value)
	}
	return all
}

// literal is a text or a number in the search.
type literal struct {
	text   string
	number float64
	isText bool
}

// compare compares a value of an object with a literal. Booleans have the form 't' or 'f'.
func (l literal) compare(value any) (int, error) {
	switch v := value.(type) {
	case string:
		if l.isText {
			return strings.Compare(v, l.text), nil
		}
		return 0, errors.New("is text; write the value in single quotes")
	case float64:
		if l.isText {
			return 0, errors.New("is a number; write the value without quotes")
		}
		switch {
		case v < l.number:
			return -1, nil
		case v > l.number:
			return 1, nil
		}
		return 0, nil
	case bool:
		if truth := slices.Index([]string{"f", "t", "false", "true"}, l.text); l.isText && truth >= 0 {
			return map[bool]int{false: 0, true: 1}[v] - truth%2, nil
		}
		return 0, errors.New("is true or false; write 't' or 'f'")
	}
	return 0, errors.New("is not a single value; use one of its fields")
}

func matches(pattern *regexp.Regexp) func(any) (bool, error) {
	return func(value any) (bool, error) {
		text, ok := value.(string)
		if !ok {
			return false, errors.New("is not text; patterns match only text")
		}
		return pattern.MatchString(text), nil
	}
}

// likePattern translates the wildcards % and _ of SQL.
func likePattern(text string, anyCase bool) (*regexp.Regexp, error) {
	var pattern strings.Builder
	pattern.WriteString("(?s")
	if anyCase {
		pattern.WriteByte('i')
	}
	pattern.WriteString(")^")
	for _, r := range text {
		switch r {
		case '%':
			pattern.WriteString(".*")
		case '_':
			pattern.WriteByte('.')
		default:
			pattern.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	pattern.WriteByte('$')
	return regexp.Compile(pattern.String())
}

type tokenKind int

const (
	endToken tokenKind = iota
	nameToken
	textToken
	numberToken
	signToken
)

type token struct {
	kind   tokenKind
	text   string
	number float64
	at     int // the number of its first character in the search
}

func (t token) String() string {
	if t.kind == endToken {
		return "nothing"
	}
	return strconv.Quote(t.text)
}

var (
	nameForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){0,2}`)
	numberForm = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
	signs      = []string{"->>", "->", "@>", "!=", "<>", "<=", ">=", "~=", "~!", "=", "<", ">", "(", ")", ","}
)

func scan(text string) ([]token, error) {
	var tokens []token
	position := 1
	for {
		rest := strings.TrimLeft(text, " \t\r\n")
		position += len(text) - len(rest)
		if text = rest; text == "" {
			return tokens, nil
		}
		t, size, err := next(text)
		if err != nil {
			return nil, &Error{position, err.Error()}
		}
		t.at = position
		position += utf8.RuneCountInString(text[:size])
		tokens, text = append(tokens, t), text[size:]
	}
}

func next(text string) (token, int, error) {
	if text[0] == '\'' {
		return quoted(text)
	}
	if strings.HasPrefix(text, "==") {
		return token{}, 0, errors.New("the search has ==; write = instead")
	}
	for _, sign := range signs {
		if strings.HasPrefix(text, sign) {
			return token{kind: signToken, text: sign}, len(sign), nil
		}
	}
	if number := numberForm.FindString(text); number != "" {
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return token{}, 0, fmt.Errorf("the search has %s, which is not a number", number)
		}
		return token{kind: numberToken, text: number, number: value}, len(number), nil
	}
	if name := nameForm.FindString(text); name != "" {
		if strings.HasPrefix(text[len(name):], ".") {
			return token{}, 0, fmt.Errorf("the search has the name %s. with more than two dots", name)
		}
		return token{kind: nameToken, text: name}, len(name), nil
	}
	if text[0] == '"' {
		return token{}, 0, errors.New("the search has double quotes; write text in single quotes")
	}
	return token{}, 0, fmt.Errorf("the search has %q, which is not valid there", text[:1])
}

func quoted(text string) (token, int, error) {
	var value strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] != '\'' {
			value.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '\'' {
			value.WriteByte('\'')
			i++
			continue
		}
		return token{kind: textToken, text: value.String()}, i + 1, nil
	}
	return token{}, 0, errors.New("the search has a text without its closing quote")
}

type parser struct {
	tokens  []token
	end     int // the position after the search
	last    int // the position of the token that was read last
	depth   int
	dialect Dialect
	anyCase bool // of the current condition's field
	query   *Query
}

// cased returns a text of the current condition as it is compared.
func (p *parser) cased(text string) string {
	if p.anyCase {
		return strings.ToLower(text)
	}
	return text
}

// located returns an error with the position of the token that was read last.
func (p *parser) located(err error) error { return &Error{p.last, err.Error()} }

func (p *parser) peek() token {
	if len(p.tokens) == 0 {
		p.last = p.end
		return token{at: p.end}
	}
	p.last = p.tokens[0].at
	return p.tokens[0]
}

func (p *parser) take() token {
	t := p.peek()
	if len(p.tokens) > 0 {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) keyword(words ...string) bool {
	if len(p.tokens) < len(words) {
		return false
	}
	for i, word := range words {
		if t := p.tokens[i]; t.kind != nameToken || !strings.EqualFold(t.text, word) {
			return false
		}
	}
	p.tokens = p.tokens[len(words):]
	return true
}

func (p *parser) sign(sign string) bool {
	if t := p.peek(); t.kind != signToken || t.text != sign {
		return false
	}
	p.take()
	return true
}

func (p *parser) or() (node, error)  { return p.joined("or", p.and) }
func (p *parser) and() (node, error) { return p.joined("and", p.not) }

func (p *parser) joined(word string, part func() (node, error)) (node, error) {
	left, err := part()
	for err == nil && p.keyword(word) {
		var right node
		if right, err = part(); err == nil {
			left = junction{word == "and", left, right}
		}
	}
	return left, err
}

func (p *parser) not() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("the search is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.keyword("not"):
		of, err := p.not()
		return negation{of}, err
	case p.sign("("):
		inner, err := p.or()
		if err == nil && !p.sign(")") {
			err = fmt.Errorf("the search has %s instead of a closing parenthesis", p.peek())
		}
		return inner, err
	}
	return p.condition()
}

func (p *parser) condition() (node, error) {
	name := p.take()
	if name.kind != nameToken {
		return nil, fmt.Errorf("the search has %s instead of the name of a field", name)
	}
	f, err := p.field(name)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(p.query.names, f.name) {
		p.query.names = append(p.query.names, f.name)
	}
	switch {
	case p.keyword("is", "not", "null"), p.comparesNull("<>", "!="):
		return negation{condition{field: f, null: true}}, nil
	case p.keyword("is", "null"), p.comparesNull("="):
		return condition{field: f, null: true}, nil
	}
	inverted := p.keyword("not")
	before := p.tokens
	p.anyCase = f.anyCase
	test, err := p.test(inverted)
	if err != nil {
		return nil, err
	}
	if inverted {
		return negation{condition{field: f, test: test}}, nil
	}
	return condition{field: f, texts: p.wantedTexts(before[:len(before)-len(p.tokens)]), test: test}, nil
}

// field reads the JSON path after a name.
func (p *parser) field(name token) (field, error) {
	f := field{name: name.text, path: strings.Split(name.text, ".")}
	for p.dialect.Paths && !f.text {
		operator := p.peek()
		if !p.sign("->") && !p.sign("->>") {
			break
		}
		key := p.take()
		if key.kind != textToken {
			return f, fmt.Errorf("the search has %s after %s; write the key in single quotes", key, operator.text)
		}
		f.name += operator.text + "'" + strings.ReplaceAll(key.text, "'", "''") + "'"
		f.path, f.text = append(f.path, key.text), operator.text == "->>"
	}
	f.anyCase = p.dialect.AnyCase != nil && p.dialect.AnyCase(f.name)
	return f, nil
}

// comparesNull reads a comparison with null in the dialect with JSON paths.
func (p *parser) comparesNull(signs ...string) bool {
	if !p.dialect.Paths || len(p.tokens) < 2 || p.tokens[0].kind != signToken ||
		!slices.Contains(signs, p.tokens[0].text) || p.tokens[1].kind != nameToken ||
		!strings.EqualFold(p.tokens[1].text, "null") {
		return false
	}
	p.tokens = p.tokens[2:]
	return true
}

// wantedTexts returns the texts of a condition of the form = 'a' or in ('a', 'b'), and nil for
// other conditions.
func (p *parser) wantedTexts(tokens []token) []string {
	switch {
	case len(tokens) == 2 && tokens[0].kind == signToken && tokens[0].text == "=":
	case len(tokens) > 2 && tokens[0].kind == nameToken && strings.EqualFold(tokens[0].text, "in"):
	default:
		return nil
	}
	texts := []string{}
	for _, t := range tokens[1:] {
		switch t.kind {
		case textToken:
			texts = append(texts, p.cased(t.text))
		case numberToken:
			return nil
		}
	}
	return union(texts, nil)
}

func (p *parser) test(inverted bool) (func(any) (bool, error), error) {
	switch {
	case p.keyword("like"):
		return p.pattern(func(text string) (*regexp.Regexp, error) { return likePattern(text, p.anyCase) })
	case p.keyword("ilike"):
		return p.pattern(func(text string) (*regexp.Regexp, error) { return likePattern(text, true) })
	case p.keyword("in"):
		return p.in()
	case p.keyword("between"):
		return p.between()
	case inverted:
		return nil, fmt.Errorf("the search has %s after not; expected like, ilike, in or between", p.peek())
	}
	return p.comparison()
}

func (p *parser) comparison() (func(any) (bool, error), error) {
	sign := p.take()
	switch sign.text {
	case "@>":
		return p.containment()
	case "~=":
		return p.pattern(p.expression)
	case "~!":
		test, err := p.pattern(p.expression)
		return func(value any) (bool, error) {
			holds, err := test(value)
			return !holds && err == nil, err
		}, err
	}
	holds, ok := map[string]func(int) bool{
		"=": func(c int) bool { return c == 0 }, "!=": func(c int) bool { return c != 0 },
		"<>": func(c int) bool { return c != 0 },
		"<":  func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
		">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 },
	}[sign.text]
	if !ok || sign.kind != signToken {
		return nil, fmt.Errorf("the search has %s instead of a comparison such as =", sign)
	}
	wanted, err := p.literal()
	return func(value any) (bool, error) {
		order, err := wanted.compare(value)
		return err == nil && holds(order), err
	}, err
}

// containment reads the JSON object after @>.
func (p *parser) containment() (func(any) (bool, error), error) {
	wanted, err := p.literal()
	if err != nil {
		return nil, err
	}
	var members map[string]any
	if !wanted.isText || !p.dialect.Paths || json.Unmarshal([]byte(wanted.text), &members) != nil {
		return nil, errors.New(`the search needs a JSON object after @>, such as '{"name":"value"}'`)
	}
	return func(value any) (bool, error) { return contains(value, members), nil }, nil
}

// contains reports whether a value contains another one: each member of an object, each element of
// a list, or the same single value.
func contains(value, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, ok := value.(map[string]any)
		for key, member := range wanted {
			held, present := object[key]
			if ok = ok && present && contains(held, member); !ok {
				return false
			}
		}
		return ok
	case []any:
		list, ok := value.([]any)
		return ok && !slices.ContainsFunc(wanted, func(member any) bool {
			return !slices.ContainsFunc(list, func(held any) bool { return contains(held, member) })
		})
	}
	return value == wanted
}

func (p *parser) literal() (literal, error) {
	t := p.take()
	switch t.kind {
	case textToken:
		return literal{text: p.cased(t.text), isText: true}, nil
	case numberToken:
		return literal{number: t.number}, nil
	}
	return literal{}, fmt.Errorf("the search has %s instead of a value; expected text in single quotes or a number", t)
}

func (p *parser) pattern(compile func(string) (*regexp.Regexp, error)) (func(any) (bool, error), error) {
	wanted := p.take()
	switch wanted.kind {
	case textToken:
	case numberToken:
		return nil, errors.New("the search has a number instead of a pattern in single quotes")
	default:
		return nil, fmt.Errorf("the search has %s instead of a pattern in single quotes", wanted)
	}
	pattern, err := compile(wanted.text)
	if err != nil {
		return nil, fmt.Errorf("the pattern '%s' of the search is not valid: %w", wanted.text, err)
	}
	return matches(pattern), nil
}

// expression compiles a regular expression for the current condition's field.
func (p *parser) expression(text string) (*regexp.Regexp, error) {
	if p.anyCase {
		text = "(?i:" + text + ")"
	}
	return regexp.Compile(text)
}

func (p *parser) in() (func(any) (bool, error), error) {
	if !p.sign("(") {
		return nil, fmt.Errorf("the search has %s after in; write the values in parentheses", p.peek())
	}
	var wanted []literal
	for {
		value, err := p.literal()
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, value)
		if p.sign(")") {
			break
		}
		if !p.sign(",") {
			return nil, fmt.Errorf("the search has %s in a list of values; write a comma or close the parenthesis",
				p.peek())
		}
	}
	return func(value any) (bool, error) {
		for _, one := range wanted {
			if order, err := one.compare(value); err != nil || order == 0 {
				return err == nil, err
			}
		}
		return false, nil
	}, nil
}

func (p *parser) between() (func(any) (bool, error), error) {
	low, err := p.literal()
	if err != nil {
		return nil, err
	}
	if !p.keyword("and") {
		return nil, fmt.Errorf("the search has %s within between; write: between 'a' and 'b'", p.peek())
	}
	high, err := p.literal()
	return func(value any) (bool, error) {
		from, err := low.compare(value)
		if err != nil {
			return false, err
		}
		to, err := high.compare(value)
		return err == nil && from >= 0 && to <= 0, err
	}, err
}
