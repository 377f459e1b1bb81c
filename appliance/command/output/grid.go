package output

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"

	"landfall/appliance/sentence"
)

// narrowest is the width below which a column is not shortened.
const narrowest = 8

// gap separates columns.
const gap = "  "

// grid is a table whose lines fit the terminal: the last column is wrapped, and others are
// shortened.
type grid struct {
	style   style
	width   int // columns of the terminal; 0 means no limit
	headers bool
	titles  []string
	states  []bool
	rows    [][]string
}

func newGrid(out io.Writer, headers bool) *grid {
	return &grid{style: newStyle(out), width: terminalWidth(out), headers: headers}
}

// terminalWidth returns the columns of the terminal that out is, or 0.
func terminalWidth(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return 0
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
		return columns
	}
	return 0
}

// OrDash returns a text, or a dash for an empty one.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func length(text string) int { return len([]rune(text)) }

// widths returns the width of each column: that of its longest text. If a line would not fit the
// terminal, the widest column becomes smaller, again and again.
func (g *grid) widths() []int {
	widths := make([]int, len(g.titles))
	for i, title := range g.titles {
		widths[i] = length(title)
		for _, row := range g.rows {
			widths[i] = max(widths[i], length(row[i]))
		}
	}
	if g.width == 0 {
		return widths
	}
	for {
		total, widest := len(gap)*(len(widths)-1), 0
		for i, width := range widths {
			total += width
			if width >= widths[widest] {
				widest = i
			}
		}
		if total <= g.width || widths[widest] <= max(narrowest, length(g.titles[widest])) {
			return widths
		}
		widths[widest] = max(widths[widest]-(total-g.width), narrowest, length(g.titles[widest]),
			secondWidest(widths, widest))
		if widths[widest] == secondWidest(widths, widest) {
			widths[widest]--
		}
	}
}

func secondWidest(widths []int, widest int) int {
	second := 0
	for i, width := range widths {
		if i != widest {
			second = max(second, width)
		}
	}
	return second
}

func (g *grid) write(out io.Writer) error {
	for _, row := range g.rows {
		for i, cell := range row {
			row[i] = line(cell)
		}
	}
	widths := g.widths()
	var text strings.Builder
	if g.headers {
		g.line(&text, g.titles, widths, func(_ int, cell string) string { return g.style.bold(cell) })
	}
	for _, row := range g.rows {
		g.line(&text, row, widths, func(i int, cell string) string {
			if g.states[i] {
				return g.style.state(cell)
			}
			return cell
		})
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// line returns a text of the appliance as a part of one line.
func line(text string) string { return sentence.Printable(strings.Join(strings.Fields(text), " ")) }

func (g *grid) line(text *strings.Builder, cells []string, widths []int, paint func(int, string) string) {
	start := 0 // of the column
	for i, cell := range cells {
		cell = OrDash(cell)
		tooLong := length(cell) > widths[i] && g.width > 0
		if i == len(cells)-1 && tooLong {
			for n, part := range split(cell, widths[i]) {
				if n > 0 {
					text.WriteString("\n" + strings.Repeat(" ", start))
				}
				text.WriteString(paint(i, part))
			}
			break
		}
		if tooLong {
			cell = string([]rune(cell)[:widths[i]-1]) + "…"
		}
		padding := ""
		if i < len(cells)-1 {
			padding = strings.Repeat(" ", max(0, widths[i]-length(cell))) + gap
		}
		text.WriteString(paint(i, cell) + padding)
		start += widths[i] + len(gap)
	}
	text.WriteByte('\n')
}

// split wraps a text, and also splits longer words.
func split(text string, width int) (lines []string) {
	for _, line := range Wrap(text, width) {
		runes := []rune(line)
		for ; len(runes) > width; runes = runes[width:] {
			lines = append(lines, string(runes[:width]))
		}
		lines = append(lines, string(runes))
	}
	return lines
}

// style adds colors on a terminal, unless the variable NO_COLOR has a value
// (https://no-color.org).
type style struct{ colored bool }

func newStyle(out io.Writer) style {
	file, ok := out.(*os.File)
	return style{ok && isatty.IsTerminal(file.Fd()) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Codes of colors (ECMA-48).
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (s style) paint(code, text string) string {
	if !s.colored {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string { return s.paint(bold, text) }

// state paints the state of an object: red for failures, green for what is complete, yellow for
// what needs a person.
func (s style) state(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
	for _, one := range []struct {
		code  string
		words []string
	}{
		{red, []string{"error", "failed", "cancelled", "disconnected", "critical"}},
		{yellow, []string{"insufficient", "pending", "warning", "action", "unavailable", "not"}},
		{green, []string{"installed", "ready", "known", "done", "available", "added"}},
	} {
		if slices.ContainsFunc(words, func(word string) bool { return slices.Contains(one.words, word) }) {
			return s.paint(one.code, text)
		}
	}
	return text
}

// Description is an object for people: its properties, a line each.
type Description struct {
	style style
	lines []descriptionLine
}

type descriptionLine struct {
	name, value string
	heading     bool
}

// Add adds a property. Properties without a value are not shown.
func (d *Description) Add(name, format string, arguments ...any) {
	d.add(name, sentence.Printable(fmt.Sprintf(format, arguments...)))
}

func (d *Description) add(name, value string) {
	if value != "" {
		d.lines = append(d.lines, descriptionLine{name: line(name), value: value})
	}
}

// State adds a property that has colors on a terminal.
func (d *Description) State(name, value string) {
	d.add(name, d.style.state(sentence.Printable(value)))
}

// Heading begins a section.
func (d *Description) Heading(text string) {
	d.lines = append(d.lines, descriptionLine{name: text, heading: true})
}

func (d *Description) write(out io.Writer) error {
	width := 0
	for _, line := range d.lines {
		if !line.heading {
			width = max(width, length(line.name))
		}
	}
	var text strings.Builder
	for i, line := range d.lines {
		if line.heading {
			if i > 0 {
				text.WriteByte('\n')
			}
			fmt.Fprintln(&text, d.style.bold(line.name))
			continue
		}
		value := strings.ReplaceAll(line.value, "\n", "\n"+strings.Repeat(" ", width+len(gap)))
		fmt.Fprintf(&text, "%-*s%s%s\n", width, line.name, gap, value)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
