package v1

import "strings"

// Matches reports whether an object is one of those that are meant: group and resource
// are the same, and namespace and name fit, in which * stands for any text.
func (id ResourceIdentifier) Matches(group, resource, namespace, name string) bool {
	return id.Group == group && id.Resource == resource && matches(id.Name, name) && matches(id.Namespace, namespace)
}

// MaxPattern is how long a pattern may be, in bytes: twice a name's length. Longer
// ones match nothing; each is compared with each manifest of its work.
const MaxPattern = 512

// matches compares with a pattern in which * stands for any text.
func matches(pattern, s string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == s
	}
	if len(pattern) > MaxPattern {
		return false
	}
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(first) : len(s)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}
