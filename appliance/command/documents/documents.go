// Package documents has the command that shows and searches the embedded documents.
package documents

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"landfall/appliance/command/manual"
	"landfall/docs"
)

// library has the documents: those of package docs, two files at the top of the repository, and the
// reference of the commands.
type library struct {
	top  fs.FS
	root *cobra.Command
}

// Topics that package docs lacks.
const (
	readme    = "readme" // at the top of the repository
	reference = "cli"    // written from the commands
	example   = "config" // the configuration file, which is printed as it is
)

// New returns landfall docs. top has README.md and config.example.yaml.
func New(top fs.FS) *cobra.Command {
	var search string
	cmd := &cobra.Command{
		Use:   "docs [TOPIC [SECTION]]",
		Short: "Show and search the documentation, which needs no connection",
		Long: "Show the documentation that this program contains. Without a topic, the command lists the topics. A " +
			"section is a\nheading of the topic or its beginning. --search finds sections that contain all words.\n\n" +
			"The commands describe themselves: landfall COMMAND --help, or manual pages by landfall man.",
		Example: "  landfall docs\n  landfall docs readme\n  landfall docs config > config.yaml\n" +
			"  landfall docs operations backups\n  landfall docs --search \"disk full\"",
		Args: func(_ *cobra.Command, arguments []string) error {
			if search != "" && len(arguments) > 1 {
				return errors.New("--search takes at most one TOPIC, to search only there")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(arguments) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names, err := topics()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return append(names, example), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, arguments []string) error {
			out, l := cmd.OutOrStdout(), library{top, cmd.Root()}
			switch {
			case search != "":
				return l.find(out, search, arguments)
			case len(arguments) == 0:
				return l.index(out)
			}
			return l.show(out, arguments[0], strings.Join(arguments[1:], " "))
		},
	}
	cmd.Flags().StringVar(&search, "search", "", "find the sections that contain all these words")
	return cmd
}

// topics returns the names of the documents, the README and the reference of the commands first.
func topics() ([]string, error) {
	paths, err := fs.Glob(docs.Files(), "*.md")
	names := []string{readme, reference}
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(path, ".md"))
	}
	return names, err
}

func (l library) read(topic string) (string, error) {
	var text []byte
	var err error
	switch topic {
	case readme:
		text, err = fs.ReadFile(l.top, "README.md")
	case reference:
		return manual.Markdown(l.root), nil
	case example:
		text, err = fs.ReadFile(l.top, "config.example.yaml")
	default:
		text, err = fs.ReadFile(docs.Files(), topic+".md")
	}
	if err == nil {
		return string(text), nil
	}
	names, listErr := topics()
	if listErr != nil {
		return "", listErr
	}
	return "", fmt.Errorf("there is no topic %q; the topics are %s", topic, strings.Join(append(names, example), ", "))
}

// section is a part of a document from one heading to the next one of its level.
type section struct {
	topic, title string
	text         string // Markdown, with the heading
}

// sections returns the title of a document and its sections. The text before the first heading of
// level 2 is a section with the title of the document.
func sections(topic, text string) (title string, all []section) {
	current := section{topic: topic}
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if heading, ok := strings.CutPrefix(line, "# "); ok && title == "" && !fenced {
			title = plain(strings.TrimSpace(heading))
			current.title = title
		}
		level := len(line) - len(strings.TrimLeft(line, "#"))
		if heading := strings.TrimSpace(strings.TrimLeft(line, "#")); !fenced && (level == 2 || level == 3) {
			all = append(all, current)
			current = section{topic: topic, title: plain(heading)}
		}
		current.text += line
	}
	return title, append(all, current)
}

var (
	topKey = regexp.MustCompile(`(?m)^([a-z_]+):`)
	signs  = regexp.MustCompile(`(?m)^ *# ?`)
)

// settings returns the sections of the configuration file, one for each paragraph, without the
// signs of its comments. The title is the key at the top level to which the paragraph belongs.
func settings(text string) (all []section) {
	title := "the configuration file"
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if key := topKey.FindStringSubmatch(paragraph); key != nil {
			title = key[1]
		}
		all = append(all, section{example, title, signs.ReplaceAllString(paragraph, "")})
	}
	return all
}

func (l library) index(out io.Writer) error {
	names, err := topics()
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := l.read(name)
		if err != nil {
			return err
		}
		title, _ := sections(name, text)
		fmt.Fprintf(out, "%-20s %s\n", name, title)
	}
	fmt.Fprintf(out, "%-20s %s\n", example, "The configuration file with all keys and their defaults")
	fmt.Fprintf(out, "\nlandfall docs TOPIC shows a topic, landfall docs --search WORDS searches all.\n")
	return nil
}

var notInAnchor = regexp.MustCompile(`[^a-z0-9 -]`)

// anchor returns the name of a heading in links.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

func (l library) show(out io.Writer, topic, wanted string) error {
	text, err := l.read(topic)
	if err != nil {
		return err
	}
	switch {
	case topic == example:
		_, err := io.WriteString(out, text)
		return err
	case wanted == "":
		_, err := io.WriteString(out, render(text))
		return err
	}
	_, all := sections(topic, text)
	at := slices.IndexFunc(all, func(s section) bool { return anchor(s.title) == anchor(wanted) })
	if at < 0 {
		at = slices.IndexFunc(all, func(s section) bool { return strings.HasPrefix(anchor(s.title), anchor(wanted)) })
	}
	if at < 0 {
		var titles []string
		for _, s := range all {
			titles = append(titles, s.title)
		}
		return fmt.Errorf("%s has no section %q; its sections are: %s", topic, wanted, strings.Join(titles, "; "))
	}
	shown := all[at].text
	if strings.HasPrefix(shown, "## ") { // with the sections below it
		for _, below := range all[at+1:] {
			if !strings.HasPrefix(below.text, "### ") {
				break
			}
			shown += below.text
		}
	}
	_, err = io.WriteString(out, render(shown))
	return err
}

// match is a section that contains all words.
type match struct {
	section
	count int
	line  string // the first with a word
}

func (l library) find(out io.Writer, search string, only []string) error {
	names, err := topics()
	if err != nil {
		return err
	}
	names = append(names, example)
	if len(only) > 0 {
		names = only
	}
	words := strings.Fields(strings.ToLower(search))
	if len(words) == 0 {
		return errors.New("--search has no words")
	}
	var found []match
	for _, name := range names {
		text, err := l.read(name)
		if err != nil {
			return err
		}
		_, all := sections(name, text)
		if name == example {
			all = settings(text)
		}
		for _, s := range all {
			if m, ok := matches(s, words); ok {
				found = append(found, m)
			}
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("no section contains %q; try fewer or shorter words, or landfall docs for the topics", search)
	}
	slices.SortStableFunc(found, func(a, b match) int { return b.count - a.count })
	const shown = 20
	for _, m := range found[:min(len(found), shown)] {
		fmt.Fprintf(out, "%s: %s\n", m.topic, m.title)
		wrappedLine := new(strings.Builder)
		wrapped(wrappedLine, m.line, "    ")
		fmt.Fprint(out, wrappedLine.String())
		command := "landfall docs " + m.topic
		if m.topic != example { // which is shown as a whole
			command += " " + anchor(m.title)
		}
		fmt.Fprintf(out, "    %s\n", command)
	}
	if len(found) > shown {
		fmt.Fprintf(out, "%d more sections; add a word\n", len(found)-shown)
	}
	return nil
}

// matches counts the words in a section. A word in the heading counts more.
func matches(s section, words []string) (match, bool) {
	m := match{section: s}
	text, title := strings.ToLower(s.text), strings.ToLower(s.title)
	for _, word := range words {
		count := strings.Count(text, word)
		if count == 0 {
			return m, false
		}
		m.count += min(count, 5)
		if strings.Contains(title, word) {
			m.count += 10
		}
	}
	best := 0
	for line := range strings.Lines(s.text) {
		inLine := 0
		for _, word := range words {
			if strings.Contains(strings.ToLower(line), word) {
				inLine++
			}
		}
		if inLine > best && !strings.HasPrefix(line, "#") {
			best = inLine
			m.line = strings.TrimSpace(plain(strings.Trim(strings.TrimSpace(line), "|")))
		}
	}
	return m, true
}
