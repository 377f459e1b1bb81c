package maestro

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/hosted/search"
	"landfall/web/problem"
)

const (
	defaultSize = 100
	maxSize     = 65500
)

// query holds the arguments of a request for a list.
type query struct {
	search     search.Expression
	page, size int
	order      []ordering
	fields     []string
}

type ordering struct {
	column     string
	descending bool
}

// row is a member of a list.
type row struct {
	column func(path []string) any
	object func() (object, error)
}

// readQuery reads the arguments of a list with the given columns.
func readQuery(c echo.Context, columns []string) (*query, error) {
	q := &query{page: 1, size: defaultSize}
	var err error
	if q.search, err = search.ParseMaestro(c.QueryParam("search"), columns); err != nil {
		return nil, searchError{err}
	}
	for name, to := range map[string]*int{"page": &q.page, "size": &q.size} {
		if text := c.QueryParam(name); text != "" {
			if *to, err = strconv.Atoi(text); err != nil {
				return nil, problem.BadRequest("%s is %q; expected a number", name, text)
			}
		}
	}
	if q.page < 1 {
		return nil, problem.BadRequest("page is %d; the first page is 1", q.page)
	}
	if q.size < 0 || q.size > maxSize {
		q.size = maxSize
	}
	for part := range strings.SplitSeq(cmp.Or(c.QueryParam("orderBy"), c.QueryParam("order")), ",") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		by := ordering{column: words[0]}
		if len(words) == 2 {
			by.descending = strings.EqualFold(words[1], "desc")
		}
		if len(words) > 2 || len(words) == 2 && !by.descending && !strings.EqualFold(words[1], "asc") ||
			!slices.Contains(columns, by.column) || by.column == "payload" {
			return nil, problem.BadRequest("The order %q is not valid; expected an order such as: name desc, "+
				"created_at", part)
		}
		q.order = append(q.order, by)
	}
	for name := range strings.SplitSeq(c.QueryParam("fields"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			q.fields = append(q.fields, name)
		}
	}
	return q, nil
}

// add adds a row that matches the search.
func (q *query) add(found *[]row, r row) error {
	matches, err := q.search.MatchPath(r.column)
	if err != nil {
		return searchError{err}
	}
	if matches {
		*found = append(*found, r)
	}
	return nil
}

// list returns the requested page of the rows.
func (q *query) list(kind string, found []row) (object, error) {
	if len(q.order) > 0 {
		slices.SortStableFunc(found, q.compare)
	}
	from := len(found)
	if q.page-1 <= len(found)/max(1, q.size) {
		from = min((q.page-1)*q.size, len(found))
	}
	items := []object{}
	for _, r := range found[from:min(from+q.size, len(found))] {
		item, err := r.object()
		if err != nil {
			return nil, err
		}
		items = append(items, q.project(item))
	}
	return object{"kind": kind, "page": q.page, "size": len(items), "total": len(found), "items": items}, nil
}

func (q *query) compare(a, b row) int {
	for _, by := range q.order {
		order := 0
		switch x := a.column([]string{by.column}).(type) {
		case time.Time:
			y, _ := b.column([]string{by.column}).(time.Time)
			order = x.Compare(y)
		case int64:
			y, _ := b.column([]string{by.column}).(int64)
			order = cmp.Compare(x, y)
		default:
			order = cmp.Compare(fmt.Sprint(x), fmt.Sprint(b.column([]string{by.column})))
		}
		if by.descending {
			order = -order
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

// project returns an object with the requested fields and the ID.
func (q *query) project(item object) object {
	if len(q.fields) == 0 {
		return item
	}
	shown := object{"id": item["id"]}
	for _, name := range q.fields {
		if value, ok := item[name]; ok {
			shown[name] = value
		}
	}
	return shown
}
