package operator

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"text/template/parse"
)

// templates holds parsed templates by name. It executes the part of the language of text/template
// that the manifests use: if, else, template, and, not, dict, fields, and functions as fields.
//
// Package text/template is not used because it finds methods by their names at run time. The linker
// then keeps every exported method of every type, and the program is a quarter larger (22 MB).
type templates map[string]*parse.Tree

// templateFunctions are the functions that the parser accepts; callBuiltin executes them.
var templateFunctions = map[string]any{"and": true, "not": true, "dict": true}

// values holds the data of a template: strings, booleans, numbers and functions by name.
type values map[string]any

// parseTemplates returns the templates in the files that match the pattern. A template has the base
// name of its file or the name in its define action.
func parseTemplates(files embed.FS, pattern string) (templates, error) {
	all := make(templates)
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		trees, err := parse.Parse(path.Base(name), string(text), "", "", templateFunctions)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, trees)
	}
	return all, nil
}

// execute writes the output of a node. dot is the value of the action {{.}}.
func (t templates) execute(out *bytes.Buffer, node parse.Node, dot any) error {
	switch node := node.(type) {
	case *parse.ListNode:
		for _, child := range node.Nodes {
			if err := t.execute(out, child, dot); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode:
		out.Write(node.Text)
		return nil
	case *parse.ActionNode:
		value, err := evaluate(node.Pipe, dot)
		if err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
		fmt.Fprint(out, value)
		return nil
	case *parse.IfNode:
		condition, err := evaluate(node.Pipe, dot)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", node.Pipe, err)
		case isTrue(condition):
			return t.execute(out, node.List, dot)
		case node.ElseList != nil:
			return t.execute(out, node.ElseList, dot)
		}
		return nil
	case *parse.TemplateNode:
		tree, ok := t[node.Name]
		if !ok || node.Pipe == nil {
			return fmt.Errorf("template %q does not exist or has no argument", node.Name)
		}
		value, err := evaluate(node.Pipe, dot)
		if err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
		return t.execute(out, tree.Root, value)
	}
	return fmt.Errorf("unsupported template action %s", node)
}

// evaluate returns the value of an expression.
func evaluate(node parse.Node, dot any) (any, error) {
	switch node := node.(type) {
	case *parse.PipeNode:
		if len(node.Cmds) == 1 && len(node.Decl) == 0 {
			return evaluate(node.Cmds[0], dot)
		}
	case *parse.CommandNode:
		return call(node.Args[0], node.Args[1:], dot)
	case *parse.DotNode:
		return dot, nil
	case *parse.StringNode:
		return node.Text, nil
	case *parse.FieldNode:
		return call(node, nil, dot)
	}
	return nil, fmt.Errorf("unsupported expression %s", node)
}

// call evaluates a command: a function with its arguments, or a value without arguments.
func call(function parse.Node, arguments []parse.Node, dot any) (any, error) {
	operands := make([]any, len(arguments))
	for i, argument := range arguments {
		var err error
		if operands[i], err = evaluate(argument, dot); err != nil {
			return nil, err
		}
	}
	switch function := function.(type) {
	case *parse.IdentifierNode:
		return callBuiltin(function.Ident, operands)
	case *parse.FieldNode:
		fields, ok := dot.(values)
		if !ok || len(function.Ident) != 1 {
			return nil, fmt.Errorf("unsupported field %s", function)
		}
		value, ok := fields[function.Ident[0]]
		if !ok {
			return nil, fmt.Errorf("%s is not a value of the template", function)
		}
		if of, ok := value.(func(string) bool); ok && len(operands) == 1 {
			text, ok := operands[0].(string)
			if !ok {
				return nil, fmt.Errorf("the argument of %s is not a string", function)
			}
			return of(text), nil
		}
		if len(operands) > 0 {
			return nil, fmt.Errorf("%s is not a function of %d arguments", function, len(operands))
		}
		return value, nil
	}
	if len(operands) > 0 {
		return nil, fmt.Errorf("%s is not a function", function)
	}
	return evaluate(function, dot)
}

func callBuiltin(name string, operands []any) (any, error) {
	switch {
	case name == "and":
		return !slices.ContainsFunc(operands, func(operand any) bool { return !isTrue(operand) }), nil
	case name == "not" && len(operands) == 1:
		return !isTrue(operands[0]), nil
	case name == "dict":
		return dict(operands)
	}
	return nil, fmt.Errorf("unsupported function %s with %d arguments", name, len(operands))
}

// dict returns the values of alternating names and values.
func dict(pairs []any) (values, error) {
	made := make(values)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("%v is not a name", pairs[i])
		}
		made[name] = pairs[i+1]
	}
	return made, nil
}

// isTrue reports whether a value is not the zero value of its type.
func isTrue(value any) bool { return value != "" && value != false && value != 0 }
