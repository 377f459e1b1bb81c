package progress

import "slices"

// maxSpans limits the number of spans of an image. Above it, the two nearest spans are joined.
const maxSpans = 128

// coverage records which bytes of an image were read at least once, as ordered spans that do not
// touch.
type coverage struct{ spans []span }

type span struct{ from, to int64 }

func (c *coverage) add(from, to int64) {
	// first is the index of the first span that ends at or after the beginning of the new span.
	first, _ := slices.BinarySearchFunc(c.spans, from, func(s span, from int64) int {
		if s.to < from {
			return -1
		}
		return 1
	})
	last := first
	for last < len(c.spans) && c.spans[last].from <= to {
		from, to = min(from, c.spans[last].from), max(to, c.spans[last].to)
		last++
	}
	if last == first+1 {
		c.spans[first] = span{from, to} // nearly every read extends a span without affecting other spans
		return
	}
	c.spans = slices.Replace(c.spans, first, last, span{from, to})
	if len(c.spans) > maxSpans {
		c.merge()
	}
}

// merge joins the two spans that have the smallest gap between them.
func (c *coverage) merge() {
	nearest := 1
	for i := 2; i < len(c.spans); i++ {
		if c.gap(i) < c.gap(nearest) {
			nearest = i
		}
	}
	c.spans[nearest-1].to = c.spans[nearest].to
	c.spans = slices.Delete(c.spans, nearest, nearest+1)
}

func (c *coverage) gap(i int) int64 { return c.spans[i].from - c.spans[i-1].to }

// within returns the number of bytes of a range that were read.
func (c *coverage) within(from, to int64) int64 {
	sum := int64(0)
	for _, s := range c.spans {
		if s.from >= to {
			break
		}
		sum += max(0, min(to, s.to)-max(from, s.from))
	}
	return sum
}
