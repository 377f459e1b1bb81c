package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var (
	// inlineCode is a command in a sentence. A line break in it counts as a space.
	inlineCode = regexp.MustCompile("`(?:sudo )?(?:bin/|\\./)?landfall ([^`]+)`")
	// codeLine is a command in a block of code.
	codeLine = regexp.MustCompile(`(?m)^(?:    |\t)(?:[$#] )?(?:sudo )?(?:[A-Z_]+=\S+ )*(?:bin/|\./)?landfall (.+)$`)
	// word is a word of a command line, with quoted parts.
	word = regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`)
	// notation is what a command line of a document contains besides the command.
	notation = regexp.MustCompile(`[\[\]]|\.\.\.|…`)
	// withoutValue is the error for a flag without a value, or with a placeholder as a number.
	withoutValue = regexp.MustCompile(`^flag needs an argument|^invalid argument "[A-Z]+"`)
)

// documentedCommands returns the command lines of landfall in a document, without the name.
func documentedCommands(text string) (lines []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, expression := range []*regexp.Regexp{inlineCode, codeLine} {
		for _, match := range expression.FindAllStringSubmatch(text, -1) {
			lines = append(lines, strings.Join(strings.Fields(match[1]), " "))
		}
	}
	return lines
}

// wordsOf returns the words of a command line up to the end of the command.
func wordsOf(line string) (words []string) {
	for _, one := range word.FindAllString(notation.ReplaceAllString(line, " "), -1) {
		if strings.HasPrefix(one, "#") || strings.HasPrefix(one, ">") || one == "|" || one == "&&" || one == "<" {
			break
		}
		words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(strings.TrimSuffix(one, ";")))
	}
	return words
}

// checkCommand reports what is wrong with a command line of a document. A sentence may name a
// command without its arguments, or a flag without its value.
func checkCommand(line string) error {
	root, _ := newRoot(topFiles())
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(wordsOf(line))
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil && !withoutValue.MatchString(err.Error()) {
		return err
	}
	arguments := cmd.Flags().Args()
	if len(arguments) == 0 {
		return nil
	}
	if !cmd.Runnable() {
		return cobra.NoArgs(cmd, arguments)
	}
	return cmd.ValidateArgs(arguments)
}

func TestDocuments_commandsExist(t *testing.T) {
	files := []string{"../../README.md", "../../CONTRIBUTING.md", "../../config.example.yaml"}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, file := range append(files, pages...) {
		if filepath.Base(file) == filepath.Base(cliDocument) {
			continue // it is written from the commands
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, line := range documentedCommands(string(text)) {
			found++
			if err := checkCommand(line); err != nil {
				t.Errorf("%s: landfall %s: %s", filepath.Base(file), line, err)
			}
		}
	}
	require.Greater(t, found, 300, "the commands were recognized")
}

func TestDocuments_wrongCommandsAreFound(t *testing.T) {
	for line, want := range map[string]string{
		"host approve": "", "host list --infra-env ID": "", "serve --listen": "", "fleet status [--json]": "",
		"audit verify FILE > out": "", "simulate run SCENARIO --seed N": "", `user create "a b" --role viewer`: "",
		"fleet status FILE":    `unexpected argument "FILE"`,
		"host aprove NAME":     "unknown command",
		"fleet status --jsn":   "unknown flag: --jsn",
		"host approve ONE TWO": `unexpected argument "TWO"`,
	} {
		err := checkCommand(line)
		if want == "" {
			require.NoError(t, err, line)
			continue
		}
		require.ErrorContains(t, err, want, line)
	}
	require.Equal(t, []string{"fleet status", "bmc add a b --user c", "hcp list"}, documentedCommands(
		"Run `landfall fleet\nstatus`:\n\n    bin/landfall bmc add a \\\n        b --user c\n"+
			"    $ A=b landfall hcp list\n"))
}
