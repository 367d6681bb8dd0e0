"""A small agent on the Google GenAI SDK; a refusal of the gateway ends its run."""

from google import genai
from google.genai import types
from google.genai.errors import ClientError

client = genai.Client()  # GOOGLE_GEMINI_BASE_URL is the gateway
integer = types.Schema(type="OBJECT", properties={"number": types.Schema(type="INTEGER")})
declared = types.FunctionDeclaration(name="find_part", parameters=integer)
config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declared])])
contents = [types.Content(role="user", parts=[types.Part(text="Are all parts in stock?")])]


def find_part(number: int) -> str:
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


for _ in range(50):
    try:
        answer = client.models.generate_content(
            model="gemini-3.1-pro", contents=contents, config=config
        )
    except ClientError as error:
        if error.details.get("detail", {}).get("error") != "recursive_loop_detected":
            raise
        print(f"stopped: {error.message}")
        break
    contents.append(answer.candidates[0].content)
    results = [
        types.Part.from_function_response(
            name=call.name, response={"result": find_part(**call.args)}
        )
        for call in answer.function_calls or ()
    ]
    if not results:
        print(f"answer: {answer.text}")
        break
    contents.append(types.Content(role="user", parts=results))
