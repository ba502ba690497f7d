package cluster

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxClientID is how many characters a client ID may have.
const MaxClientID = 253

// MaxTokenClientIDs is how many client IDs one bootstrap token may list.
const MaxTokenClientIDs = 100

// CheckClientID says why a text can't be the client ID of a cluster.
func CheckClientID(id string) error {
	form := regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.:]*[A-Za-z0-9])?$`)
	switch {
	case len(id) > MaxClientID:
		return fmt.Errorf("%.20q… is not a client ID, as it has %d characters: use %d at most", id, len(id), MaxClientID)
	case !form.MatchString(id):
		return fmt.Errorf("%q is not a client ID: use letters, digits and the characters - _ . : with a letter or digit at both ends", id)
	}
	return nil
}

// CheckClientIDs says why a list of client IDs can't be that of a token.
func CheckClientIDs(ids []string) error {
	if len(ids) > MaxTokenClientIDs {
		return fmt.Errorf("%d client IDs are more than one token may list: use %d at most, or several tokens", len(ids), MaxTokenClientIDs)
	}
	for _, id := range ids {
		if err := CheckClientID(id); err != nil {
			return err
		}
	}
	return nil
}

// CheckAllowedLabels says why a list of label keys and, with a * at the end,
// their beginnings can't be what a token allows agents to choose.
func CheckAllowedLabels(allowed []string) error {
	for _, key := range allowed {
		example, open := key, false
		if prefix, ok := strings.CutSuffix(key, "*"); ok {
			example, open = prefix+"x", true
		}
		switch problems := validation.IsQualifiedName(example); {
		case len(problems) > 0 && open:
			return fmt.Errorf("%q is not the beginning of a label's key: write one such as env-* or example.com/*, or * for any key", key)
		case len(problems) > 0:
			return fmt.Errorf("%q is not a key of a label: %s", key, strings.Join(problems, "; "))
		case IsReservedLabel(example):
			return fmt.Errorf("agents may not choose the label %q, as it belongs to Kubernetes, Open Cluster Management or muster: "+
				"leave it out, or have the token put it on its clusters itself", key)
		}
	}
	return nil
}

// IsReservedLabel reports whether a label belongs to Kubernetes, to Open Cluster
// Management (such as the one that puts a cluster into a set) or to muster. No
// agent may choose it.
func IsReservedLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	domain = strings.ToLower(domain)
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "x-k8s.io", "open-cluster-management.io", "muster-fleet.io"}, func(of string) bool {
		return domain == of || strings.HasSuffix(domain, "."+of)
	})
}

// Chosen divides the labels that an agent would like its cluster to have into
// those that it gets and the keys, sorted, of those that it does not: the token
// does not allow them, they are reserved, or the token sets them itself.
func (s *TokenScope) Chosen(labels map[string]string) (taken map[string]string, dropped []string) {
	taken = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value, stamped := s.Labels[key]
		switch {
		case stamped && value == labels[key]:
		case stamped || IsReservedLabel(key) || !s.allows(key):
			dropped = append(dropped, key)
		default:
			taken[key] = labels[key]
		}
	}
	return taken, dropped
}

func (s *TokenScope) allows(key string) bool {
	return slices.ContainsFunc(s.AllowedLabels, func(allowed string) bool {
		prefix, open := strings.CutSuffix(allowed, "*")
		return key == allowed || open && strings.HasPrefix(key, prefix)
	})
}

// CheckChosenLabels says why labels can't be asked for: a key or a value is no
// label's.
func CheckChosenLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Errorf("%q is not a key of a label: %s", key, strings.Join(problems, "; "))
		}
		if problems := validation.IsValidLabelValue(labels[key]); len(problems) > 0 {
			return fmt.Errorf("%q is not a value of the label %q: %s", labels[key], key, strings.Join(problems, "; "))
		}
	}
	return nil
}

// IsBootstrap reports whether a user registers clusters: a bootstrap token, the
// bootstrap service account, or somebody in the group of both.
func IsBootstrap(name string, groups []string) bool {
	_, token := TokenOfUser(name)
	return token || name == BootstrapUser || slices.Contains(groups, BootstrapGroup)
}
