// Package courier carries images to a site by hand. The site creates a signed list of the images
// that its mirror lacks. A connected machine fills a directory with these images. A machine at the
// site pushes the directory to the mirror.
package courier

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/architecture"
	"landfall/appliance/sitekey"
)

// Purpose is the purpose of the signatures of lists.
const Purpose sitekey.Purpose = "landfall shopping list v1"

// List is a list of images to carry to the site.
type List struct {
	// Created is a UTC time with a precision of one second.
	Created time.Time
	// Release is the release's pull spec by digest. Version and Architecture describe the release;
	// they are "" if not known.
	Release, Version, Architecture string
	Items                          []Item
	// Whole is true if the release image itself is missing, so that the list cannot name the other
	// images. Fill then reads their names from the release image and derives their destinations
	// from Rules.
	Whole bool
	// Rules map source repositories to repositories of the mirror. Whole requires them.
	Rules []Rule
}

// Rule maps a source repository or namespace to its place in the mirror.
type Rule struct{ Source, Mirror string }

// Item is one image.
type Item struct {
	// Source is the image's original pull spec by digest.
	Source string
	// Destination is the place of the image according to the mirror rules: a repository of the
	// mirror with a tag.
	Destination string
	// Names are the image's names in the release. They are empty if the image does not belong to
	// the release.
	Names []string
	// Bytes is the size of the missing parts; 0 if not known.
	Bytes int64
	// Why describes briefly what is missing.
	Why string
}

// Prefixes of the lines of a list.
const (
	title           = "# Landfall shopping list"
	signaturePrefix = "# signature: "
	keyPrefix       = "# key: "
)

// Is reports whether a text is a signed list in any format.
func Is(text []byte) bool {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return bytes.HasPrefix(lines[len(lines)-1], []byte(signaturePrefix)) && len(lines) > 1 &&
		bytes.HasPrefix(lines[len(lines)-2], []byte(keyPrefix))
}

// Text returns the list as lines source@digest=destination:tag, the format of oc image mirror -f.
// Parse reads it.
func (l *List) Text(key *sitekey.Key) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n%s", title, l.header())
	for _, rule := range l.Rules {
		fmt.Fprintf(&out, "# rule: %s=%s\n", rule.Source, rule.Mirror)
	}
	for _, item := range l.Items {
		fmt.Fprintf(&out, "%s=%s\n", item.Source, item.Destination)
	}
	return sign(out.Bytes(), key)
}

func (l *List) header() string {
	text := fmt.Sprintf("# created: %s\n# release: %s\n", l.Created.UTC().Format(time.RFC3339), l.Release)
	if l.Version != "" {
		text += fmt.Sprintf("# version: %s\n", l.Version)
	}
	if l.Architecture != "" {
		text += fmt.Sprintf("# architecture: %s\n", l.Architecture)
	}
	if l.Whole {
		text += "# whole: true\n"
	}
	return text
}

func sign(text []byte, key *sitekey.Key) ([]byte, error) {
	text = fmt.Appendf(text, "%s%s\n", keyPrefix, key.Public())
	signature, err := key.Sign(Purpose, text)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(text, "%s%s\n", signaturePrefix, base64.StdEncoding.EncodeToString(signature)), nil
}

// CSV returns the list as a table for people. It includes the missing bytes of each image.
func (l *List) CSV(key *sitekey.Key) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	rows := [][]string{{"name", "source", "destination", "missing bytes", "why"}}
	for _, item := range l.Items {
		size := ""
		if item.Bytes > 0 {
			size = strconv.FormatInt(item.Bytes, 10)
		}
		rows = append(rows, []string{strings.Join(item.Names, " "), item.Source, item.Destination, size, item.Why})
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	out.WriteString(l.header())
	return sign(out.Bytes(), key)
}

// ImageSet returns the list as an ImageSetConfiguration (mirror.openshift.io/v2alpha1) for
// oc-mirror version 2. If an image of the release is missing, it mirrors the whole release again:
// the mirror rules do not cover the destinations of additionalImages.
func (l *List) ImageSet(key *sitekey.Key) ([]byte, error) {
	type image struct {
		Name string `yaml:"name"`
	}
	type platform struct {
		Architectures []string `yaml:"architectures,omitempty"`
		Release       string   `yaml:"release"`
	}
	var set struct {
		Kind       string `yaml:"kind"`
		APIVersion string `yaml:"apiVersion"`
		Mirror     struct {
			Platform         *platform `yaml:"platform,omitempty"`
			AdditionalImages []image   `yaml:"additionalImages,omitempty"`
		} `yaml:"mirror"`
	}
	set.Kind, set.APIVersion = "ImageSetConfiguration", "mirror.openshift.io/v2alpha1"
	for _, item := range l.Items {
		if len(item.Names) == 0 {
			set.Mirror.AdditionalImages = append(set.Mirror.AdditionalImages, image{item.Source})
		} else if set.Mirror.Platform == nil {
			set.Mirror.Platform = &platform{Release: l.Release}
			if l.Architecture != "" {
				set.Mirror.Platform.Architectures = []string{architecture.Of(l.Architecture).Go()}
			}
		}
	}
	text, err := yaml.Marshal(set)
	if err != nil {
		return nil, err
	}
	return sign(append([]byte(title+" for oc-mirror\n"+l.header()), text...), key)
}

// ErrNoList is the error for a file that is not a list or is damaged.
var ErrNoList = errors.New("is not a shopping list")

// Parse parses a list in the format of Text. It verifies the signature with the key in the list. To
// verify the key, compare its fingerprint with the one that the site shows.
func Parse(data []byte) (*List, sitekey.Public, error) {
	var key sitekey.Public
	if !bytes.HasPrefix(data, []byte(title+"\n")) {
		return nil, key,
			fmt.Errorf("%w: it does not begin with %q; use the plain list of the Mirror page or of landfall mirror "+
				"list", ErrNoList, title)
	}
	at := bytes.LastIndex(data, []byte("\n"+signaturePrefix))
	if at < 0 {
		return nil, key, fmt.Errorf("%w: its signature is missing, so the file may be truncated; copy it again",
			ErrNoList)
	}
	signed, end := data[:at+1], bytes.TrimSpace(data[at+1:])
	signature, err := base64.StdEncoding.DecodeString(string(bytes.TrimPrefix(end, []byte(signaturePrefix))))
	if err != nil {
		return nil, key, fmt.Errorf("%w: its signature is damaged; copy it again", ErrNoList)
	}
	list := new(List)
	for number, line := range strings.Split(strings.TrimSuffix(string(signed), "\n"), "\n") {
		if err := list.readLine(line, &key); err != nil {
			return nil, key, fmt.Errorf("%w: line %d: %w", ErrNoList, number+1, err)
		}
	}
	if err := key.Verify(Purpose, signed, signature); err != nil {
		return nil, key, fmt.Errorf("verify the shopping list: %w", err)
	}
	return list, key, nil
}

func (l *List) readLine(line string, key *sitekey.Public) (err error) {
	line = strings.TrimSuffix(line, "\r")
	if comment, ok := strings.CutPrefix(line, "# "); ok {
		word, value, _ := strings.Cut(comment, ": ")
		switch word {
		case "created":
			l.Created, err = time.Parse(time.RFC3339, value)
		case "release":
			l.Release = value
		case "version":
			l.Version = value
		case "architecture":
			l.Architecture = value
		case "whole":
			l.Whole = value == "true"
		case "rule":
			source, mirror, ok := strings.Cut(value, "=")
			if !ok || source == "" || mirror == "" {
				return fmt.Errorf("%q is not a rule from a source to a mirror", value)
			}
			l.Rules = append(l.Rules, Rule{source, mirror})
		case "key":
			err = key.UnmarshalText([]byte(value))
		}
		return err
	}
	source, destination, ok := strings.Cut(line, "=")
	if !ok {
		return fmt.Errorf("%q is not an assignment of an image to a destination", line)
	}
	if _, err := name.NewDigest(source); err != nil {
		return fmt.Errorf("%q is not a reference to an image by digest", source)
	}
	if _, err := name.NewTag(destination, name.StrictValidation); err != nil {
		return fmt.Errorf("%q is not a repository with a tag", destination)
	}
	l.Items = append(l.Items, Item{Source: source, Destination: destination})
	return nil
}

// components returns the items of a whole release with their destinations according to the rules.
func (l *List) components(version, arch string, images map[string]string) ([]Item, error) {
	var items []Item
	for tag, source := range images {
		destination := ""
		best := -1
		for _, rule := range l.Rules {
			rest, ok := strings.CutPrefix(source, rule.Source)
			if !ok || rest == "" || rest[0] != '@' && rest[0] != '/' || len(rule.Source) <= best {
				continue
			}
			repository, _, _ := strings.Cut(rest, "@")
			destination, best = rule.Mirror+repository, len(rule.Source)
		}
		if destination == "" {
			return nil,
				fmt.Errorf("the list has no rule for %s (%s), so its destination is not known; add a mirror rule at "+
					"the site and create a new list", source, tag)
		}
		items = append(items, Item{Source: source, Destination: destination + ":" + ComponentTag(version, arch, tag),
			Names: []string{tag}})
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Destination, b.Destination) })
	return items, nil
}

// ComponentTag returns the tag that oc-mirror gives a component of a release, or the release image
// if component is "".
func ComponentTag(version, arch, component string) string {
	tag := version + "-" + arch
	if component != "" {
		tag += "-" + component
	}
	return tag
}

// DigestTag returns the tag that oc-mirror gives other images.
func DigestTag(digest string) string { return strings.Replace(digest, ":", "-", 1) }
