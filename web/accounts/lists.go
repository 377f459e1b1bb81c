package accounts

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/ams/tsl"
	"landfall/appliance/sentence"
)

const (
	defaultSize = 100
	maxSize     = 65500
)

// query holds the arguments of a request for a list.
type query struct {
	search     *tsl.Query
	page, size int
	order      []ordering
	fields     []string
	labels     [][2]string
}

type ordering struct {
	name       string
	descending bool
}

// readQuery reads the arguments of a list and validates the field names in them.
func readQuery(c echo.Context, known func(name string) bool) (*query, error) {
	values := c.QueryParams()
	q := &query{page: 1, size: defaultSize}
	var err error
	if q.search, err = tsl.Parse(values.Get("search")); err != nil {
		return nil, badRequest(codeSearch, "%s", sentence.Capitalize(err.Error()))
	}
	for _, name := range q.search.Names() {
		if !known(name) {
			return nil, badRequest(codeSearch, "The search uses %s, which is not a field of the listed objects", name)
		}
	}
	if err := numbers(values, q); err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(cmp.Or(values.Get("order"), values.Get("orderBy")), ",") {
		words := strings.Fields(part)
		switch {
		case len(words) == 0:
			continue
		case len(words) > 2, len(words) == 2 && !strings.EqualFold(words[1], "asc") && !strings.EqualFold(words[1],
			"desc"):
			return nil, badRequest(codeBadRequest,
				"The order %q is not valid; expected an order such as: name desc, id", part)
		case !known(words[0]):
			return nil, badRequest(codeBadRequest, "The order uses %s, which is not a field of the listed objects",
				words[0])
		}
		q.order = append(q.order, ordering{words[0], len(words) == 2 && strings.EqualFold(words[1], "desc")})
	}
	for name := range strings.SplitSeq(values.Get("fields"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			q.fields = append(q.fields, name)
		}
	}
	for pair := range strings.SplitSeq(values.Get("labels"), ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			q.labels = append(q.labels, [2]string{key, value})
		}
	}
	return q, nil
}

func numbers(values url.Values, q *query) error {
	for _, number := range []struct {
		name string
		into *int
	}{{"page", &q.page}, {"size", &q.size}} {
		text := values.Get(number.name)
		if text == "" {
			continue
		}
		var err error
		if *number.into, err = strconv.Atoi(text); err != nil {
			return badRequest(codeBadRequest, "%s is %q; expected a number", number.name, text)
		}
	}
	if q.page < 1 {
		return badRequest(codeBadRequest, "page is %d; the first page is 1", q.page)
	}
	if q.size < 0 || q.size > maxSize {
		q.size = maxSize
	}
	return nil
}

// answer writes the requested page of a list.
func (q *query) answer(c echo.Context, kind string, all []object) error {
	var found []object
	for _, one := range all {
		matches, err := q.search.Match(one)
		if err != nil {
			return badRequest(codeSearch, "%s", sentence.Capitalize(err.Error()))
		}
		if matches && q.labelled(one) {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b object) int {
		for _, by := range q.order {
			if c := compare(tsl.Values(a, by.name), tsl.Values(b, by.name)); c != 0 {
				if by.descending {
					return -c
				}
				return c
			}
		}
		return cmp.Compare(text(a["id"]), text(b["id"]))
	})
	from := len(found)
	if q.page-1 <= len(found)/max(1, q.size) {
		from = min((q.page-1)*q.size, len(found))
	}
	items := []object{}
	for _, one := range found[from:min(from+q.size, len(found))] {
		items = append(items, q.project(one))
	}
	return c.JSON(http.StatusOK, object{"kind": kind, "page": q.page, "size": len(items), "total": len(found),
		"items": items})
}

func (q *query) labelled(one object) bool {
	for _, want := range q.labels {
		labels, _ := one["labels"].([]any)
		if !slices.ContainsFunc(labels, func(label any) bool {
			l, ok := label.(object)
			return ok && l["key"] == want[0] && l["value"] == want[1]
		}) {
			return false
		}
	}
	return true
}

// project returns an object with only the requested fields and the ID.
func (q *query) project(one object) object {
	if len(q.fields) == 0 {
		return one
	}
	shown := object{"id": one["id"]}
	for _, name := range q.fields {
		copyField(one, shown, strings.Split(name, "."))
	}
	return shown
}

func copyField(from, to object, path []string) {
	value, ok := from[path[0]]
	switch {
	case !ok:
		return
	case len(path) == 1 || path[1] == "*":
		to[path[0]] = value
		return
	}
	switch inner := value.(type) {
	case object:
		part, _ := to[path[0]].(object)
		if part == nil {
			part = object{}
		}
		copyField(inner, part, path[1:])
		to[path[0]] = part
	case []any:
		parts, _ := to[path[0]].([]any)
		if parts == nil {
			parts = make([]any, len(inner))
		}
		for i, member := range inner {
			part, _ := parts[i].(object)
			if part == nil {
				part = object{}
			}
			if fields, ok := member.(object); ok {
				copyField(fields, part, path[1:])
			}
			parts[i] = part
		}
		to[path[0]] = parts
	}
}

// compare compares two values of a field. Objects without the field come first.
func compare(a, b []any) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(a), len(b))
	}
	switch x := a[0].(type) {
	case string:
		if y, ok := b[0].(string); ok {
			return cmp.Compare(x, y)
		}
	case float64:
		if y, ok := b[0].(float64); ok {
			return cmp.Compare(x, y)
		}
	case bool:
		if y, ok := b[0].(bool); ok && x != y {
			if y {
				return -1
			}
			return 1
		}
	}
	return 0
}

// list sends the requested page of a list. fields are the fields that the search and the order may
// name.
func list(c echo.Context, kind string, all []object, fields []string) error {
	q, err := readQuery(c, func(name string) bool { return slices.Contains(fields, name) })
	if err != nil {
		return err
	}
	return q.answer(c, kind, all)
}

// empty returns the handler of a list that is always empty at this site.
func empty(kind string) echo.HandlerFunc {
	return func(c echo.Context) error {
		q, err := readQuery(c, func(string) bool { return true })
		if err != nil {
			return err
		}
		return q.answer(c, kind, nil)
	}
}

func text(value any) string {
	t, _ := value.(string)
	return t
}
