// Package version finds a release of the appliance by the beginning of its version.
package version

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/command/remote"
)

// Find returns the version of a release of the appliance. wanted is a version or its beginning: 4,
// 4.20, 4.20.8. If there are several, the default release is preferred, then the highest version
// without a suffix, such as -rc.1. "" means the default release.
func Find(ctx context.Context, client *remote.Client, wanted string) (string, error) {
	var known models.OpenshiftVersions
	if err := client.Call(ctx, http.MethodGet, remote.APIPath+"/openshift-versions", nil, &known); err != nil {
		return "", err
	}
	if _, ok := known[wanted]; ok {
		return wanted, nil
	}
	all := slices.SortedFunc(maps.Keys(known), compare)
	if len(all) == 0 {
		return "", fmt.Errorf("the appliance has no release with a live ISO; landfall status shows what is missing")
	}
	var matching []string
	for _, version := range all {
		if begins(version, wanted) {
			matching = append(matching, version)
		}
	}
	if len(matching) == 0 {
		return "", fmt.Errorf("the appliance has no release %s; it has %s", wanted, strings.Join(all, ", "))
	}
	for _, version := range matching {
		if known[version].Default {
			return version, nil
		}
	}
	if wanted == "" && len(matching) > 1 {
		return "", fmt.Errorf("no release is the default; give --version with one of %s", strings.Join(all, ", "))
	}
	slices.Reverse(matching)
	if i := slices.IndexFunc(matching, func(v string) bool { return !strings.Contains(v, "-") }); i >= 0 {
		return matching[i], nil
	}
	return matching[0], nil
}

// begins reports whether a version begins with whole numbers of another: 4.20.8 with 4.20, but not
// with 4.2.
func begins(version, wanted string) bool {
	rest, ok := strings.CutPrefix(version, wanted)
	return ok && (wanted == "" || rest == "" || strings.HasSuffix(wanted, ".") || !startsWithDigit(rest))
}

func startsWithDigit(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }

// compare orders versions by their numbers. A version with a suffix, such as -rc.1, is lower than
// the one without.
func compare(a, b string) int {
	a, suffixA, _ := strings.Cut(a, "-")
	b, suffixB, _ := strings.Cut(b, "-")
	partsA, partsB := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(partsA), len(partsB)) {
		numberA, errA := strconv.Atoi(partsA[i])
		numberB, errB := strconv.Atoi(partsB[i])
		if errA != nil || errB != nil {
			return strings.Compare(a, b)
		}
		if numberA != numberB {
			return numberA - numberB
		}
	}
	switch {
	case len(partsA) != len(partsB):
		return len(partsA) - len(partsB)
	case suffixA == "" && suffixB != "":
		return 1
	case suffixA != "" && suffixB == "":
		return -1
	}
	return strings.Compare(suffixA, suffixB)
}
