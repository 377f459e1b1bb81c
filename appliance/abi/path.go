package abi

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A path identifies a place in a document in the usual notation: spec.proxy.httpProxy,
// compute[0].replicas, metadata.annotations["agent-install.openshift.io/x"].

// field returns the path of a field below a path.
func field(path, name string) string {
	switch {
	case strings.ContainsAny(name, `./["]`) || name == "":
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// step is one part of a path: a name, or an index if name is empty.
type step struct {
	name  string
	index int
}

// steps splits a path made by [field] and [item].
func steps(path string) []step {
	var found []step
	for path != "" {
		switch {
		case strings.HasPrefix(path, `["`):
			quoted, err := strconv.QuotedPrefix(path[1:])
			if err != nil {
				return found
			}
			name, err := strconv.Unquote(quoted)
			if err != nil {
				return found
			}
			found, path = append(found, step{name: name}), path[1+len(quoted)+1:]
		case path[0] == '[':
			end := strings.IndexByte(path, ']')
			index, err := strconv.Atoi(path[1:end])
			if err != nil {
				return found
			}
			found, path = append(found, step{index: index}), path[end+1:]
		default:
			path = strings.TrimPrefix(path, ".")
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			found, path = append(found, step{name: path[:end]}), path[end:]
		}
	}
	return found
}

// nodeAt returns the node at a path, or nil.
func nodeAt(node *yaml.Node, path string) *yaml.Node {
	for _, s := range steps(path) {
		node = child(node, s)
		if node == nil {
			return nil
		}
	}
	return node
}

func child(node *yaml.Node, s step) *yaml.Node {
	node = resolved(node)
	switch {
	case s.name == "" && node.Kind == yaml.SequenceNode && s.index < len(node.Content):
		return node.Content[s.index]
	case s.name != "" && node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == s.name {
				return node.Content[i+1]
			}
		}
	}
	return nil
}

func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// set sets the value at a path. It creates missing parents and keeps the comments of the replaced
// node. A nil value removes the field.
func set(node *yaml.Node, path string, value any) error {
	all := steps(path)
	for i, s := range all {
		if value == nil && i == len(all)-1 {
			remove(node, s)
			return nil
		}
		next := child(node, s)
		if next == nil {
			if value == nil {
				return nil
			}
			next = add(node, s)
		}
		node = next
	}
	var made yaml.Node
	if given, ok := value.(*yaml.Node); ok {
		made = *given
	} else if err := made.Encode(value); err != nil {
		return err
	}
	made.HeadComment, made.LineComment, made.FootComment = node.HeadComment, node.LineComment, node.FootComment
	if made.Kind == yaml.ScalarNode && node.Kind == yaml.ScalarNode && made.Style == 0 && made.Tag == "!!str" {
		made.Style = node.Style &^ yaml.TaggedStyle
	}
	*node = made
	return nil
}

func add(node *yaml.Node, s step) *yaml.Node {
	node = resolved(node)
	made := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if s.name == "" {
		if node.Kind != yaml.SequenceNode {
			*node = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		}
		node.Content = append(node.Content, made)
		return made
	}
	if node.Kind != yaml.MappingNode {
		*node = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	if len(node.Content) == 0 {
		node.Style = 0 // the node may have the style of "{}"
	}
	node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s.name}, made)
	return made
}

func remove(node *yaml.Node, s step) {
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == s.name {
			node.Content = append(node.Content[:i:i], node.Content[i+2:]...)
			return
		}
	}
}
