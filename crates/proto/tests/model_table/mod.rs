//! Which type of the model reads which definition of the schemas.
//!
//! A definition that is not here fails the tests, so a new one cannot go unnoticed.

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::jsonrpc::write;
use cardan_proto::method::Method;
use cardan_proto::model::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads JSON into a type and writes it again.
pub(crate) type Codec = fn(&Value) -> Result<Value, String>;

/// What a definition is to the model.
#[derive(Clone)]
pub(crate) enum Entry {
    /// One of our types.
    Type(Codec),
    /// A call or a note: a method, and params of one of our types.
    Message(Method, Codec),
    /// A whole response: a result of one of our types, or asks.
    Response(Codec),
    /// A whole error response: a fault, with data of one of our types.
    FaultResponse(Codec),
    /// Not modelled, for this reason.
    Not(&'static str),
}

impl Entry {
    /// Reads an instance of the definition and writes it again.
    pub(crate) fn pass(&self, value: &Value) -> Result<Value, String> {
        match self {
            Self::Type(codec) => codec(value),
            Self::Message(method, codec) => {
                if value["method"] != method.name() {
                    return Err(format!("method {} is not {method}", value["method"]));
                }
                within(value, "params", *codec)
            }
            Self::Response(codec) => {
                let asks = value["result"].get("inputRequests").is_some();
                within(value, "result", if asks { of::<InputRequiredResult> } else { *codec })
            }
            Self::FaultResponse(codec) => {
                let value = within(value, "error", fault)?;
                let error = within(&value["error"], "data", *codec)?;
                Ok(with(value, "error", error))
            }
            Self::Not(reason) => Err((*reason).to_owned()),
        }
    }
}

/// Reads `T` from text, as from the wire, and writes it again.
pub(crate) fn of<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, String> {
    let read: T = serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())?;
    serde_json::to_value(&read).map_err(|error| error.to_string())
}

/// A call id borrows from the text it is read from, so it cannot pass through [`of`].
fn id_of(value: &Value) -> Result<Value, String> {
    let id = CallId::parse(value.to_string().as_bytes(), 256).map_err(|bad| format!("{bad:?}"))?;
    serde_json::to_value(&id).map_err(|error| error.to_string())
}

fn cancelled(value: &Value) -> Result<Value, String> {
    let text = value.to_string();
    let read: cancel::CancelledParams = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    serde_json::to_value(&read).map_err(|error| error.to_string())
}

fn fault(value: &Value) -> Result<Value, String> {
    let fault = Fault::parse(&Bytes::from(value.to_string())).ok_or("no fault")?;
    let mut out = Vec::new();
    write::fault(&fault, &mut out);
    serde_json::from_slice(&out).map_err(|error| error.to_string())
}

fn any(value: &Value) -> Result<Value, String> {
    Ok(value.clone())
}

/// Answers say by their ask what they are; here the members must tell.
fn input_response(value: &Value) -> Result<Value, String> {
    let responses = |value: &Value| of::<InputResponses>(&json!({ "a": value })).map(|all| all["a"].clone());
    match (value.get("action"), value.get("roots")) {
        (Some(_), _) => of::<ElicitResult>(&responses(value)?),
        (None, Some(_)) => of::<roots::ListRootsResult>(&responses(value)?),
        (None, None) => of::<CreateMessageResult>(&responses(value)?),
    }
}

fn within(value: &Value, member: &str, codec: Codec) -> Result<Value, String> {
    match value.get(member) {
        Some(inner) => Ok(with(value.clone(), member, codec(inner)?)),
        None => Ok(value.clone()),
    }
}

fn with(mut value: Value, member: &str, inner: Value) -> Value {
    value[member] = inner;
    value
}

const UNION: &str = "a union; each member is modelled";
const MIXIN: &str = "a base of other definitions; its members stand in each of them";
const ENVELOPE: &str = "the envelope, which jsonrpc reads without the model";
const JSON: &str = "any JSON";

/// Every definition of the five revisions.
pub(crate) fn entry(name: &str) -> Option<Entry> {
    parts(name).or_else(|| payloads(name)).or_else(|| messages(name)).or_else(|| outside(name))
}

fn parts(name: &str) -> Option<Entry> {
    Some(Entry::Type(match name {
        "Annotations" => of::<Annotations>,
        "AudioContent"
        | "ContentBlock"
        | "EmbeddedResource"
        | "ImageContent"
        | "ResourceLink"
        | "SamplingMessageContentBlock"
        | "TextContent"
        | "ToolResultContent"
        | "ToolUseContent" => of::<Content>,
        "BlobResourceContents" | "TextResourceContents" => of::<ResourceContents>,
        "BooleanSchema"
        | "EnumSchema"
        | "LegacyTitledEnumSchema"
        | "MultiSelectEnumSchema"
        | "NumberSchema"
        | "PrimitiveSchemaDefinition"
        | "SingleSelectEnumSchema"
        | "StringSchema"
        | "TitledMultiSelectEnumSchema"
        | "TitledSingleSelectEnumSchema"
        | "UntitledMultiSelectEnumSchema"
        | "UntitledSingleSelectEnumSchema" => of::<form::Field>,
        "ClientCapabilities" => of::<ClientCapabilities>,
        "Cursor" => of::<Cursor>,
        "Error"
        | "InternalError"
        | "InvalidParamsError"
        | "InvalidRequestError"
        | "MethodNotFoundError"
        | "ParseError" => fault,
        "Icon" => of::<content::Icon>,
        "Implementation" => of::<Implementation>,
        "InputRequest" => of::<InputRequest>,
        "InputRequests" => of::<InputRequests>,
        "InputResponse" => input_response,
        "InputResponses" => of::<InputResponses>,
        "LoggingLevel" => of::<LogLevel>,
        "MetaObject"
        | "NotificationMetaObject"
        | "RequestMetaObject"
        | "ResultMetaObject"
        | "SubscriptionsListenResultMetaObject" => of::<Meta>,
        "ModelHint" => of::<sampling::ModelHint>,
        "ModelPreferences" => of::<sampling::ModelPreferences>,
        "ProgressToken" => of::<ProgressToken>,
        "Prompt" => of::<Prompt>,
        "PromptArgument" => of::<prompt::PromptArgument>,
        "PromptMessage" => of::<PromptMessage>,
        "PromptReference" | "ResourceReference" | "ResourceTemplateReference" => of::<complete::Reference>,
        "RelatedTaskMetadata" => of::<task::RelatedTask>,
        "RequestId" => id_of,
        "Resource" => of::<Resource>,
        "ResourceTemplate" => of::<ResourceTemplate>,
        "ResultType" => of::<ResultType>,
        "Role" => of::<Role>,
        "Root" => of::<roots::Root>,
        "SamplingMessage" => of::<sampling::SamplingMessage>,
        "ServerCapabilities" => of::<ServerCapabilities>,
        "SubscriptionFilter" => of::<listen::ListenFilter>,
        "Task" => of::<Task>,
        "TaskMetadata" => of::<task::TaskMetadata>,
        "TaskStatus" => of::<task::TaskStatus>,
        "Tool" => of::<Tool>,
        "ToolAnnotations" => of::<tool::ToolAnnotations>,
        "ToolChoice" => of::<sampling::ToolChoice>,
        "ToolExecution" => of::<tool::ToolExecution>,
        _ => return None,
    }))
}

fn payloads(name: &str) -> Option<Entry> {
    Some(Entry::Type(match name {
        "CallToolRequestParams" => of::<CallToolParams>,
        "CallToolResult" => of::<CallToolResult>,
        "CancelTaskResult" | "GetTaskResult" | "TaskStatusNotificationParams" => of::<Task>,
        "CancelledNotificationParams" => cancelled,
        "CompleteRequestParams" => of::<complete::CompleteParams>,
        "CompleteResult" => of::<complete::CompleteResult>,
        "CreateMessageRequestParams" => of::<CreateMessageParams>,
        "CreateMessageResult" => of::<CreateMessageResult>,
        "CreateTaskResult" => of::<task::CreateTaskResult>,
        "DiscoverResult" => of::<DiscoverResult>,
        "ElicitRequestFormParams" | "ElicitRequestParams" | "ElicitRequestURLParams" => of::<ElicitParams>,
        "ElicitResult" => of::<ElicitResult>,
        "EmptyResult" | "Result" => of::<EmptyResult>,
        "GetPromptRequestParams" => of::<GetPromptParams>,
        "GetPromptResult" => of::<GetPromptResult>,
        "InitializeRequestParams" => of::<InitializeParams>,
        "InitializeResult" => of::<InitializeResult>,
        "InputRequiredResult" => of::<InputRequiredResult>,
        "ListPromptsResult" => of::<ListPromptsResult>,
        "ListResourceTemplatesResult" => of::<ListResourceTemplatesResult>,
        "ListResourcesResult" => of::<ListResourcesResult>,
        "ListRootsResult" => of::<roots::ListRootsResult>,
        "ListTasksResult" => of::<task::ListTasksResult>,
        "ListToolsResult" => of::<ListToolsResult>,
        "LoggingMessageNotificationParams" => of::<logging::LogParams>,
        "NotificationParams" | "RequestParams" => of::<listen::BareParams>,
        "PaginatedRequestParams" => of::<PageParams>,
        "ProgressNotificationParams" => of::<progress::ProgressParams>,
        "ReadResourceRequestParams" => of::<ReadResourceParams>,
        "ReadResourceResult" => of::<ReadResourceResult>,
        "ResourceRequestParams" | "SubscribeRequestParams" | "UnsubscribeRequestParams" => {
            of::<listen::SubscribeParams>
        }
        "ResourceUpdatedNotificationParams" => of::<listen::ResourceUpdatedParams>,
        "SetLevelRequestParams" => of::<logging::SetLevelParams>,
        "SubscriptionsAcknowledgedNotificationParams" => of::<listen::AcknowledgedParams>,
        "SubscriptionsListenRequestParams" => of::<listen::ListenParams>,
        "SubscriptionsListenResult" => of::<listen::ListenResult>,
        _ => return None,
    }))
}

fn messages(name: &str) -> Option<Entry> {
    let bare: Codec = of::<listen::BareParams>;
    let page: Codec = of::<PageParams>;
    let task: Codec = of::<task::TaskParams>;
    let (method, codec): (Method, Codec) = match name {
        "CallToolRequest" => (Method::ToolsCall, of::<CallToolParams>),
        "CancelTaskRequest" => (Method::TasksCancel, task),
        "CancelledNotification" => (Method::Cancelled, cancelled),
        "CompleteRequest" => (Method::CompletionComplete, of::<complete::CompleteParams>),
        "CreateMessageRequest" => (Method::SamplingCreateMessage, of::<CreateMessageParams>),
        "DiscoverRequest" => (Method::Discover, bare),
        "ElicitRequest" => (Method::ElicitationCreate, of::<ElicitParams>),
        "ElicitationCompleteNotification" => {
            (Method::ElicitationComplete, of::<elicit::ElicitationCompleteParams>)
        }
        "GetPromptRequest" => (Method::PromptsGet, of::<GetPromptParams>),
        "GetTaskPayloadRequest" => (Method::TasksResult, task),
        "GetTaskRequest" => (Method::TasksGet, task),
        "InitializeRequest" => (Method::Initialize, of::<InitializeParams>),
        "InitializedNotification" => (Method::Initialized, bare),
        "ListPromptsRequest" => (Method::PromptsList, page),
        "ListResourceTemplatesRequest" => (Method::ResourcesTemplatesList, page),
        "ListResourcesRequest" => (Method::ResourcesList, page),
        "ListRootsRequest" => (Method::RootsList, bare),
        "ListTasksRequest" => (Method::TasksList, page),
        "ListToolsRequest" => (Method::ToolsList, page),
        "LoggingMessageNotification" => (Method::Message, of::<logging::LogParams>),
        "PingRequest" => (Method::Ping, bare),
        "ProgressNotification" => (Method::Progress, of::<progress::ProgressParams>),
        "PromptListChangedNotification" => (Method::PromptsListChanged, bare),
        "ReadResourceRequest" => (Method::ResourcesRead, of::<ReadResourceParams>),
        "ResourceListChangedNotification" => (Method::ResourcesListChanged, bare),
        "ResourceUpdatedNotification" => (Method::ResourcesUpdated, of::<listen::ResourceUpdatedParams>),
        "RootsListChangedNotification" => (Method::RootsListChanged, bare),
        "SetLevelRequest" => (Method::LoggingSetLevel, of::<logging::SetLevelParams>),
        "SubscribeRequest" => (Method::ResourcesSubscribe, of::<listen::SubscribeParams>),
        "SubscriptionsAcknowledgedNotification" => {
            (Method::SubscriptionsAcknowledged, of::<listen::AcknowledgedParams>)
        }
        "SubscriptionsListenRequest" => (Method::SubscriptionsListen, of::<listen::ListenParams>),
        "TaskStatusNotification" => (Method::TasksStatus, of::<Task>),
        "ToolListChangedNotification" => (Method::ToolsListChanged, bare),
        "UnsubscribeRequest" => (Method::ResourcesUnsubscribe, of::<listen::SubscribeParams>),
        _ => return None,
    };
    Some(Entry::Message(method, codec))
}

fn outside(name: &str) -> Option<Entry> {
    Some(match name {
        "CallToolResultResponse" => Entry::Response(of::<CallToolResult>),
        "CompleteResultResponse" => Entry::Response(of::<complete::CompleteResult>),
        "DiscoverResultResponse" => Entry::Response(of::<DiscoverResult>),
        "GetPromptResultResponse" => Entry::Response(of::<GetPromptResult>),
        "ListPromptsResultResponse" => Entry::Response(of::<ListPromptsResult>),
        "ListResourceTemplatesResultResponse" => Entry::Response(of::<ListResourceTemplatesResult>),
        "ListResourcesResultResponse" => Entry::Response(of::<ListResourcesResult>),
        "ListToolsResultResponse" => Entry::Response(of::<ListToolsResult>),
        "ReadResourceResultResponse" => Entry::Response(of::<ReadResourceResult>),
        "SubscriptionsListenResultResponse" => Entry::Response(of::<listen::ListenResult>),
        "HeaderMismatchError" => Entry::FaultResponse(any),
        "MissingRequiredClientCapabilityError" => Entry::FaultResponse(of::<capability::MissingCapability>),
        "URLElicitationRequiredError" => Entry::FaultResponse(of::<elicit::UrlsRequired>),
        "UnsupportedProtocolVersionError" => Entry::FaultResponse(of::<lifecycle::UnsupportedVersion>),
        "ClientNotification" | "ClientRequest" | "ClientResult" | "ServerNotification" | "ServerRequest"
        | "ServerResult" => Entry::Not(UNION),
        "Annotated"
        | "BaseMetadata"
        | "CacheableResult"
        | "Icons"
        | "InputResponseRequestParams"
        | "PaginatedRequest"
        | "PaginatedResult"
        | "ResourceContents"
        | "TaskAugmentedRequestParams" => Entry::Not(MIXIN),
        "JSONRPCBatchRequest"
        | "JSONRPCBatchResponse"
        | "JSONRPCError"
        | "JSONRPCErrorResponse"
        | "JSONRPCMessage"
        | "JSONRPCNotification"
        | "JSONRPCRequest"
        | "JSONRPCResponse"
        | "JSONRPCResultResponse"
        | "Notification"
        | "Request" => Entry::Not(ENVELOPE),
        "JSONArray" | "JSONObject" | "JSONValue" => Entry::Not(JSON),
        "GetTaskPayloadResult" => Entry::Not("whatever result the call has that became a task"),
        _ => return None,
    })
}

/// Equal as JSON, where `1` and `1.0` are the same number.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// The shared data, or `None` after saying what is skipped.
pub(crate) fn shared(path: &str) -> Option<std::path::PathBuf> {
    let full = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(path);
    if !full.exists() {
        println!("skipped: ../shared/{path} is not there");
        return None;
    }
    Some(full)
}
