package abi

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is one YAML document of a file, with its original bytes.
type document struct {
	file  string
	line  int    // number of its first line in the file, from 1
	head  []byte // the separator line before the document
	raw   []byte
	node  *yaml.Node // a mapping; nil if the document contains only comments
	plain map[string]any
	kind  *kind
	dirty bool
}

func (d *document) at(node *yaml.Node) int { return d.line + node.Line - 1 }

func (d *document) problem(node *yaml.Node, format string, args ...any) Problem {
	return Problem{d.file, d.at(node), fmt.Sprintf(format, args...)}
}

// separates reports whether a line separates documents: it starts with "---", optionally followed
// by a comment.
func separates(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	if !ok {
		return false
	}
	rest = bytes.TrimSpace(rest)
	return len(rest) == 0 || rest[0] == '#'
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s+)?line (\d+): `)

// documents splits a file. The heads and bytes of all documents together equal the file.
func documents(file File) ([]*document, error) {
	var found []*document
	current, number := &document{file: file.Name, line: 1}, 0
	for line := range bytes.Lines(file.Data) {
		number++
		if separates(line) {
			found = append(found, current)
			current = &document{file: file.Name, line: number + 1, head: line}
			continue
		}
		current.raw = append(current.raw, line...)
	}
	found = append(found, current)
	var problems []Problem
	for _, d := range found {
		if err := d.parse(); err != nil {
			line := d.line
			message := strings.TrimPrefix(err.Error(), "yaml: ")
			if at := yamlLine.FindStringSubmatch(err.Error()); at != nil {
				if n, convErr := strconv.Atoi(at[1]); convErr == nil {
					line += n - 1
				}
				message = err.Error()[len(at[0]):]
			}
			problems = append(problems, Problem{file.Name, line, "can't be read as YAML: " +
				strings.ReplaceAll(message, "\n", " ")})
		}
	}
	if len(problems) > 0 {
		return nil, &DirectoryError{problems}
	}
	return found, nil
}

func (d *document) parse() error {
	var root yaml.Node
	if err := yaml.Unmarshal(d.raw, &root); err != nil {
		return err
	}
	if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return nil
	}
	d.node = root.Content[0]
	if d.node.Kind != yaml.MappingNode {
		return errors.New("yaml: line 1: a document must be a mapping of fields")
	}
	return d.node.Decode(&d.plain) // detects duplicate fields
}

// bytes returns the content to write: the original bytes if no value was changed.
func (d *document) bytes() ([]byte, error) {
	if !d.dirty {
		return append(bytes.Clone(d.head), d.raw...), nil
	}
	var out bytes.Buffer
	out.Write(d.head)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(d.node); err != nil {
		return nil, fmt.Errorf("write %s: %w", d.file, err)
	}
	return out.Bytes(), encoder.Close()
}

// set changes a value of the document.
func (d *document) set(path string, value any) error {
	d.dirty = true
	return set(d.node, path, value)
}
