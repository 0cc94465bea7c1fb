//! Every code a document can be refused or warned with. One table, so that docs/ERRORS.md can be checked against it.

use serde::{Serialize, Serializer};

// A macro because name, text and meaning of a code must not be able to drift apart.
macro_rules! codes {
    ($($variant:ident $name:literal $meaning:literal)*) => {
        /// A stable code of a problem in a document.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// All codes, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The text that stands in answers: `UPPER_SNAKE`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// One line on what it means.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    ApproversMissing "APPROVERS_MISSING" "an approval is required, but nobody is named who may give it"
    CallCycle "CALL_CYCLE" "processes call each other in a circle, so that no version can be pinned"
    CallInput "CALL_INPUT" "a called process does not have this input, or a required input is not mapped"
    ClosingReference "CLOSING_REFERENCE" "a closing message may hold only inputs and declared outputs"
    Cycle "CYCLE" "the flow leads back to a node it came from"
    DelegationCycle "DELEGATION_CYCLE" "a process delegates to itself, or a chain of delegates leads back to it"
    DeprecatedField "DEPRECATED_FIELD" "an old name of a field is accepted; the hint gives the new one"
    DocumentKind "DOCUMENT_KIND" "the file is no document that can be deployed"
    DocumentTooLarge "DOCUMENT_TOO_LARGE" "a document is larger than 1 MiB"
    DuplicateDocument "DUPLICATE_DOCUMENT" "two documents of the set have the same key or name"
    DuplicateKey "DUPLICATE_KEY" "a key stands twice in the same map"
    DuplicateName "DUPLICATE_NAME" "a name is declared twice"
    DuplicateNode "DUPLICATE_NODE" "two nodes have the same id"
    ExpressionCostly "EXPRESSION_COSTLY" "the worst case of an expression runs too long"
    ExpressionInvalid "EXPRESSION_INVALID" "an expression or a placeholder cannot be read"
    FallThrough "FALL_THROUGH" "without next, a node would run into one that a rule, branch, boundary or outcome names"
    FunctionName "FUNCTION_NAME" "the function name of a tool or delegate is over 64 characters or taken"
    InsecureUrl "INSECURE_URL" "a tool server needs https unless it is on this machine"
    InvalidValue "INVALID_VALUE" "a value is not one of those that the field takes"
    LockedName "LOCKED_NAME" "a declared input is locked and cannot be written here"
    MissingField "MISSING_FIELD" "a required field is absent"
    NameCollision "NAME_COLLISION" "a name is the same as one that the engine writes"
    NameUnknown "NAME_UNKNOWN" "nothing in the process writes this name, or the node's inputs do not give it"
    NextMissing "NEXT_MISSING" "the last node neither ends nor routes nor says next"
    NextNotAllowed "NEXT_NOT_ALLOWED" "a node that ends or routes by its own fields takes no next"
    NotYet "NOT_YET" "reserved for a later release"
    OutputNotProvable "OUTPUT_NOT_PROVABLE" "a child may write this output, but nothing in its document says so"
    OutputUnknown "OUTPUT_UNKNOWN" "no node of the process writes this output"
    PolicyLoosened "POLICY_LOOSENED" "a node may tighten a tool's policy, never loosen it"
    ProcessNotFound "PROCESS_NOT_FOUND" "the process is neither in the set nor deployed in the project"
    PromptExpression "PROMPT_EXPRESSION" "a prompt may hold variable paths only"
    ReservedName "RESERVED_NAME" "a name is built in or a word of the expression language"
    SchemaInvalid "SCHEMA_INVALID" "this is no JSON Schema 2020-12, or it reaches outside the document"
    ServerNotFound "SERVER_NOT_FOUND" "the tool server is neither in the set nor deployed in the project"
    StdioCommand "STDIO_COMMAND" "the command of a stdio server belongs to the agent worker's configuration and is never posted"
    TomlSyntax "TOML_SYNTAX" "legation.toml cannot be read"
    TooManyDelegates "TOO_MANY_DELEGATES" "a node has more than 8 delegates"
    TooManyDocuments "TOO_MANY_DOCUMENTS" "a set has more than 1,000 files"
    TooManyNodes "TOO_MANY_NODES" "a flow has more than 1,000 nodes"
    ToolNotFound "TOOL_NOT_FOUND" "the tool is not listed in its server's document, so it is denied"
    UnknownKey "UNKNOWN_KEY" "this key does not exist here"
    UnknownNodeType "UNKNOWN_NODE_TYPE" "there is no node of this type"
    UnknownTarget "UNKNOWN_TARGET" "there is no node with this id"
    UnknownValue "UNKNOWN_VALUE" "legation.toml has no value of this name"
    Unreachable "UNREACHABLE" "no path from the entry leads to this node"
    WrongType "WRONG_TYPE" "a value is of another kind than the field takes"
    YamlBomb "YAML_BOMB" "the document is too big once its aliases are expanded"
    YamlDepth "YAML_DEPTH" "the document is nested deeper than 64 levels"
    YamlSyntax "YAML_SYNTAX" "the file is not readable as YAML"
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
