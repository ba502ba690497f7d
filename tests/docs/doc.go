// Package docs checks the documents against the tree: links and paths that they
// name, the table of packages, and the rules about who imports what.
package docs
