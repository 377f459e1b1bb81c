package documents

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"landfall/appliance/command/output"
	"landfall/docs"
)

// columns is the width of the output.
const columns = 100

var (
	link      = regexp.MustCompile(`!?\[([^\]]*)\]\(([^)\s]+)\)`)
	comment   = regexp.MustCompile(`(?s)<!--.*?-->\n*`)
	separator = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

// isTopic reports whether the program contains a document with this name.
func isTopic(name string) bool {
	if name == readme || name == reference {
		return true
	}
	_, err := fs.Stat(docs.Files(), name+".md")
	return err == nil
}

// plain returns the prose of a Markdown text without its marks. A link to another document becomes
// the command that shows it. The program does not contain the other targets of the repository.
func plain(text string) string {
	text = link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		label, target := parts[1], parts[2]
		page, section, _ := strings.Cut(target, "#")
		topic, document := strings.CutSuffix(path.Base(page), ".md") // the README names the directory
		if topic == "README" {
			topic = readme
		}
		switch {
		case strings.HasPrefix(found, "!"):
			return "(picture: " + label + ")"
		case strings.Contains(target, "://"):
			return label + " (" + target + ")"
		case page == "":
			return label
		case path.Base(page) == "config.example.yaml":
			return label + " (landfall docs " + example + ")"
		case !document || !isTopic(topic):
			return label + " (in the source repository)"
		case section != "":
			return label + " (landfall docs " + topic + " " + section + ")"
		}
		return label + " (landfall docs " + topic + ")"
	})
	return strings.NewReplacer("**", "", "`", "", "<br/>", ", ", `\|`, "|").Replace(text)
}

// render returns a Markdown document as text for a terminal.
func render(markdown string) string {
	var out strings.Builder
	lines := strings.Split(comment.ReplaceAllString(markdown, ""), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "```"):
			language := strings.TrimPrefix(line, "```")
			end := i + 1
			for end < len(lines) && !strings.HasPrefix(lines[end], "```") {
				end++
			}
			if language == "mermaid" {
				out.WriteString("    (a diagram, which a terminal can't show; the tables have its content)\n")
			} else {
				for _, code := range lines[i+1 : min(end, len(lines))] {
					out.WriteString("    " + code + "\n")
				}
			}
			i = end
		case strings.HasPrefix(line, "    "):
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "#"):
			level := len(line) - len(strings.TrimLeft(line, "#"))
			title := plain(strings.TrimSpace(line[level:]))
			out.WriteString(title + "\n")
			if level <= 2 {
				mark := map[int]string{1: "=", 2: "-"}[level]
				out.WriteString(strings.Repeat(mark, utf8.RuneCountInString(title)) + "\n")
			}
		case strings.HasPrefix(line, "|"):
			end := i
			for end < len(lines) && strings.HasPrefix(lines[end], "|") {
				end++
			}
			table(&out, lines[i:end])
			i = end - 1
		default: // a link may go on in the next line
			end := i
			for end < len(lines) && isProse(lines[end]) {
				end++
			}
			out.WriteString(plain(strings.Join(lines[i:end], "\n")) + "\n")
			i = end - 1
		}
	}
	return out.String()
}

// isProse reports whether a line is neither code nor a heading nor a row of a table.
func isProse(line string) bool {
	return !strings.HasPrefix(line, "```") && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "#") &&
		!strings.HasPrefix(line, "|")
}

// cells returns the cells of a row of a table.
func cells(row string) []string {
	row = strings.ReplaceAll(strings.Trim(strings.TrimSpace(row), "|"), `\|`, "\x00")
	parts := strings.Split(row, "|")
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(plain(strings.TrimSpace(part)), "\x00", "|")
	}
	return parts
}

// table writes a table with columns, or, if it is too wide, its rows one below the other.
func table(out *strings.Builder, rows []string) {
	var all [][]string
	var widths []int
	for _, row := range rows {
		if separator.MatchString(row) {
			continue
		}
		row := cells(row)
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
		all = append(all, row)
	}
	total := 0
	for _, width := range widths {
		total += width + 2
	}
	if total > columns {
		list(out, all)
		return
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]+2-utf8.RuneCountInString(cell)))
		}
		out.WriteString("  " + strings.TrimRight(line.String(), " ") + "\n")
	}
}

func list(out *strings.Builder, rows [][]string) {
	for _, row := range rows[min(1, len(rows)):] {
		out.WriteString("  " + row[0] + "\n")
		for i, cell := range row[1:] {
			if cell == "" {
				continue
			}
			title := ""
			if i+1 < len(rows[0]) && rows[0][i+1] != "" {
				title = rows[0][i+1] + ": "
			}
			wrapped(out, title+cell, "      ")
		}
	}
}

// wrapped writes a text in lines with an indent.
func wrapped(out *strings.Builder, text, indent string) {
	for _, line := range output.Wrap(text, columns-utf8.RuneCountInString(indent)) {
		out.WriteString(indent + line + "\n")
	}
}
